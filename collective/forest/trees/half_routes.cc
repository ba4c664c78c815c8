#include "collective/forest/trees/half_routes.h"

#include <algorithm>

namespace espalier::forest {
namespace {

// Returns the level of a node; nodes of hosts lie below the fabric.
std::int32_t LevelOf(const Problem& problem, std::int32_t node) {
  const auto index = static_cast<std::size_t>(node);
  return problem.in_fabric[index] ? problem.tier[index] : 0;
}

// Returns how many of a route's hops lead up to its hub.
std::size_t CountUp(const Problem& problem, std::span<const std::int32_t> hops) {
  const auto level = [&](std::size_t before) {
    return LevelOf(problem, problem.arcs[static_cast<std::size_t>(hops[before - 1])].head);
  };
  std::size_t up = 1;
  for (std::size_t i = 2; i < hops.size(); ++i) {
    if (level(i) > level(up)) up = i;
  }
  return up;
}

// Returns the first half route of the hub.
std::optional<std::uint16_t> FindByHub(
    std::span<const std::pair<std::int32_t, std::uint16_t>> half_routes, std::int32_t hub) {
  const auto found =
      std::lower_bound(half_routes.begin(), half_routes.end(), std::pair(hub, std::uint16_t{0}));
  if (found == half_routes.end() || found->first != hub) return std::nullopt;
  return found->second;
}

}  // namespace

std::optional<HalfRoutes> HalfRoutes::Find(const Problem& problem, const TreeCount& count,
                                           const Forest& forest) {
  HalfRoutes half_routes;
  half_routes.out_.resize(static_cast<std::size_t>(problem.rank_count));
  half_routes.in_.resize(half_routes.out_.size());
  for (const Arc& arc : problem.arcs) half_routes.heads_.push_back(arc.head);
  for (const bool down : {false, true}) {
    if (!half_routes.AddHalfRoutes(problem, count, down)) return std::nullopt;
  }
  if (!half_routes.AddRoutes(problem, forest)) return std::nullopt;
  half_routes.ListByHub(static_cast<std::size_t>(problem.node_count));
  return half_routes;
}

std::optional<std::uint16_t> HalfRoutes::FindOut(Rank rank, std::int32_t hub) const {
  return FindByHub(out_by_hub_[rank], hub);
}

std::optional<std::uint16_t> HalfRoutes::FindIn(Rank rank, std::int32_t hub) const {
  return FindByHub(in_by_hub_[rank], hub);
}

bool HalfRoutes::GoTogether(const HalfRoute& out, const HalfRoute& in) const {
  const auto up = Hops(out);
  const auto down = Hops(in);
  for (std::size_t u = 0; u + 1 < up.size(); ++u) {
    for (std::size_t d = 0; d + 1 < down.size(); ++d) {
      if (HeadOf(up[u]) == HeadOf(down[d])) return false;
    }
  }
  return true;
}

bool HalfRoutes::AddHalfRoutes(const Problem& problem, const TreeCount& count, bool down) {
  std::vector<std::vector<std::int32_t>> arcs_at(static_cast<std::size_t>(problem.node_count));
  for (std::size_t a = 0; a < problem.arcs.size(); ++a) {
    if (count.capacity[a] == 0) continue;
    const std::int32_t lower = down ? problem.arcs[a].head : problem.arcs[a].tail;
    arcs_at[static_cast<std::size_t>(lower)].push_back(static_cast<std::int32_t>(a));
  }
  struct Reached {
    std::int32_t node = 0;
    std::vector<std::int32_t> hops;
  };
  ByRank& all = down ? in_ : out_;
  std::vector<bool> seen(arcs_at.size(), false);
  for (std::int32_t rank = 0; rank < problem.rank_count; ++rank) {
    std::vector<Reached> open = {{rank, {}}};
    std::vector<HalfRoute>& half_routes = all[static_cast<std::size_t>(rank)];
    for (std::size_t i = 0; i < open.size(); ++i) {
      const std::int32_t at = open[i].node;
      for (const std::int32_t arc : arcs_at[static_cast<std::size_t>(at)]) {
        const Arc& link = problem.arcs[static_cast<std::size_t>(arc)];
        const std::int32_t next = down ? link.tail : link.head;
        const bool falls = LevelOf(problem, next) < LevelOf(problem, at);
        if (seen[static_cast<std::size_t>(next)] || falls || (problem.IsRank(next) && i > 0)) {
          continue;
        }
        if (problem.IsRank(next)) {
          // On a direct link the receiver is the hub, and its lower half is empty.
          const std::vector<std::int32_t> hops =
              down ? std::vector<std::int32_t>() : std::vector{arc};
          if (!Intern(half_routes, down ? rank : next, hops)) return false;
          continue;
        }
        std::vector<std::int32_t> hops = open[i].hops;
        hops.insert(down ? hops.begin() : hops.end(), arc);
        if (!Intern(half_routes, next, hops)) return false;
        seen[static_cast<std::size_t>(next)] = true;
        open.push_back({next, std::move(hops)});
      }
    }
    for (const Reached& reached : open) seen[static_cast<std::size_t>(reached.node)] = false;
  }
  return true;
}

bool HalfRoutes::AddRoutes(const Problem& problem, const Forest& forest) {
  const RoutingTable& routes = forest.routes;
  of_route_.resize(routes.RouteCount());
  for (std::size_t arc = 0; arc < routes.ArcCount(); ++arc) {
    for (const Route& route : routes.Routes(arc)) {
      const std::span<const std::int32_t> hops = routes.Hops(route);
      const std::size_t up = CountUp(problem, hops);
      const std::int32_t hub = HeadOf(hops[up - 1]);
      const auto out = Intern(out_[routes.From(arc)], hub, hops.first(up));
      const auto in = Intern(in_[routes.To(arc)], hub, hops.subspan(up));
      if (!out || !in) return false;
      of_route_[routes.IndexOf(route)] = {*out, *in};
    }
  }
  return true;
}

std::optional<std::uint16_t> HalfRoutes::Intern(std::vector<HalfRoute>& half_routes,
                                                std::int32_t hub,
                                                std::span<const std::int32_t> hops) {
  for (std::size_t i = 0; i < half_routes.size(); ++i) {
    const auto own = Hops(half_routes[i]);
    if (half_routes[i].hub == hub && std::equal(own.begin(), own.end(), hops.begin(), hops.end())) {
      return static_cast<std::uint16_t>(i);
    }
  }
  if (half_routes.size() == kMaxHalfRoutes) return std::nullopt;
  const auto begin = static_cast<std::int32_t>(hops_.size());
  hops_.insert(hops_.end(), hops.begin(), hops.end());
  half_routes.push_back({hub, begin, static_cast<std::int32_t>(hops_.size())});
  return static_cast<std::uint16_t>(half_routes.size() - 1);
}

void HalfRoutes::ListByHub(std::size_t node_count) {
  const auto list = [](const ByRank& all) {
    ByHub by_hub(all.size());
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
      for (std::size_t i = 0; i < all[rank].size(); ++i) {
        by_hub[rank].emplace_back(all[rank][i].hub, static_cast<std::uint16_t>(i));
      }
      std::sort(by_hub[rank].begin(), by_hub[rank].end());
    }
    return by_hub;
  };
  out_by_hub_ = list(out_);
  in_by_hub_ = list(in_);
  senders_.resize(node_count);
  for (std::size_t rank = 0; rank < out_.size(); ++rank) {
    for (const auto& [hub, place] : out_by_hub_[rank]) {
      std::vector<Rank>& senders = senders_[static_cast<std::size_t>(hub)];
      if (senders.empty() || senders.back() != rank) senders.push_back(static_cast<Rank>(rank));
    }
  }
}

}  // namespace espalier::forest
