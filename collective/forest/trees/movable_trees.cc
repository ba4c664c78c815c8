#include "collective/forest/trees/movable_trees.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "collective/forest/model/routable.h"
#include "collective/forest/model/routed_trees.h"
#include "common/base/check.h"

namespace espalier::forest {
namespace {

constexpr std::size_t kMaxFeederHops = 4;
constexpr std::int32_t kSteepDepth = 60;  // from this depth on the cost grows linearly

// Finds the short routes by rank, then by their first rank. None if there would be too many.
std::optional<std::vector<std::vector<IncomingRoute>>> FindShortRoutes(const Problem& problem,
                                                                       const TreeCount& count) {
  std::vector<std::vector<std::int32_t>> arcs_into(static_cast<std::size_t>(problem.node_count));
  for (std::size_t a = 0; a < problem.arcs.size(); ++a) {
    if (count.capacity[a] == 0) continue;
    arcs_into[static_cast<std::size_t>(problem.arcs[a].head)].push_back(
        static_cast<std::int32_t>(a));
  }
  std::vector<std::vector<IncomingRoute>> routes(static_cast<std::size_t>(problem.rank_count));
  std::size_t total = 0;
  for (std::size_t x = 0; x < routes.size(); ++x) {
    // Searches backwards from x; every partial route begins at a node other than a rank.
    std::vector<std::vector<std::int32_t>> open = {{}};
    while (!open.empty()) {
      const std::vector<std::int32_t> partial = std::move(open.back());
      open.pop_back();
      const std::int32_t node = partial.empty()
                                    ? static_cast<std::int32_t>(x)
                                    : problem.arcs[static_cast<std::size_t>(partial.front())].tail;
      for (const std::int32_t a : arcs_into[static_cast<std::size_t>(node)]) {
        const std::int32_t tail = problem.arcs[static_cast<std::size_t>(a)].tail;
        if (tail == static_cast<std::int32_t>(x)) continue;
        std::vector<std::int32_t> longer = {a};
        longer.insert(longer.end(), partial.begin(), partial.end());
        if (!problem.IsRank(tail)) {
          if (longer.size() < kMaxFeederHops) open.push_back(std::move(longer));
        } else if (longer.size() <= 2 || IsRoutable(problem, longer)) {
          routes[x].push_back({static_cast<Rank>(tail), std::move(longer)});
          if (++total > kMaxFeeders) return std::nullopt;
        }
      }
    }
    std::ranges::stable_sort(routes[x], {}, &IncomingRoute::from);
  }
  return routes;
}

}  // namespace

std::optional<IncomingRoutes> FindIncomingRoutes(const Problem& problem, const TreeCount& count,
                                                 const Forest& forest) {
  auto short_routes = FindShortRoutes(problem, count);
  if (!short_routes) return std::nullopt;
  IncomingRoutes feeders{std::move(*short_routes),
                         std::vector<std::uint32_t>(forest.routes.RouteCount())};
  std::vector<std::size_t> sorted;  // by rank: the number of routes present at first
  for (const std::vector<IncomingRoute>& into : feeders.into) sorted.push_back(into.size());
  for (std::size_t arc = 0; arc < forest.routes.ArcCount(); ++arc) {
    std::vector<IncomingRoute>& into = feeders.into[forest.routes.To(arc)];
    const Rank from = forest.routes.From(arc);
    for (const Route& route : forest.routes.Routes(arc)) {
      const auto hops = forest.routes.Hops(route);
      const auto is_it = [&](const IncomingRoute& other) {
        return std::ranges::equal(other.hops, hops);
      };
      const auto end = into.begin() + static_cast<std::ptrdiff_t>(sorted[forest.routes.To(arc)]);
      const auto likely =
          std::lower_bound(into.begin(), end, from,
                           [](const IncomingRoute& other, Rank rank) { return other.from < rank; });
      const auto past = std::find_if(
          likely, end, [from](const IncomingRoute& other) { return other.from != from; });
      auto found = std::find_if(likely, past, is_it);
      if (found == past) found = std::find_if(end, into.end(), is_it);
      feeders.of_route[forest.routes.IndexOf(route)] =
          static_cast<std::uint32_t>(found - into.begin());
      if (found == into.end()) into.push_back({from, {hops.begin(), hops.end()}});
    }
  }
  return feeders;
}

MovableTrees::MovableTrees(const Problem& problem, const TreeCount& count, const Forest& forest,
                           const IncomingRoutes& feeders)
    : problem_(problem),
      feeders_(feeders.into),
      ranks_(static_cast<std::size_t>(problem.rank_count)),
      left_(count.capacity) {
  weight_.push_back(1);
  for (std::size_t d = 1; d <= ranks_; ++d) {
    const bool steep = d < static_cast<std::size_t>(kSteepDepth);
    weight_.push_back(steep ? 3 * weight_.back() : weight_.back() + weight_[kSteepDepth - 1]);
  }
  VisitRoutedTrees(forest, [&](const RoutedTree& routed) {
    const auto tree = static_cast<std::uint32_t>(roots_.size());
    roots_.push_back(routed.root);
    counts_.push_back(routed.count);
    heights_.push_back(routed.height);
    places_.resize(places_.size() + ranks_);
    for (const TreeEdge& edge : routed.edges) {
      Hang(tree, edge.child, edge.parent);
      At(tree, edge.child).depth = static_cast<std::uint16_t>(At(tree, edge.parent).depth + 1);
      Take({tree, edge.child}, feeders.of_route[forest.routes.IndexOf(*edge.route)]);
    }
    return true;
  });
}

Rank MovableTrees::DeepestOf(std::uint32_t tree) const {
  for (std::size_t r = 0; r < ranks_; ++r) {
    if (At(tree, static_cast<Rank>(r)).depth == heights_[tree]) return static_cast<Rank>(r);
  }
  return roots_[tree];
}

Rank MovableTrees::ParentOf(Edge edge) const { return At(edge.tree, edge.child).parent; }

const IncomingRoute& MovableTrees::FeederOf(Edge edge) const {
  return feeders_[edge.child][At(edge.tree, edge.child).feeder];
}

bool MovableTrees::IsBelow(Edge edge, Rank rank) const {
  const std::uint16_t depth = At(edge.tree, edge.child).depth;
  while (At(edge.tree, rank).depth > depth) rank = At(edge.tree, rank).parent;
  return rank == edge.child;
}

void MovableTrees::ListBelow(std::uint32_t tree, Rank top) {
  scratch_.assign(1, top);
  for (std::size_t i = 0; i < scratch_.size(); ++i) {
    for (Rank c = At(tree, scratch_[i]).first_child; c != kNoRank; c = At(tree, c).next) {
      scratch_.push_back(c);
    }
  }
  steps_ += static_cast<std::int64_t>(scratch_.size());
}

double MovableTrees::CostOf(Edge edge, Rank parent) {
  const std::ptrdiff_t shift = At(edge.tree, parent).depth + 1 - At(edge.tree, edge.child).depth;
  if (shift == 0) return 0;
  ListBelow(edge.tree, edge.child);
  double cost = 0;
  for (const Rank rank : scratch_) {
    const std::ptrdiff_t depth = At(edge.tree, rank).depth;
    cost +=
        weight_[static_cast<std::size_t>(depth + shift)] - weight_[static_cast<std::size_t>(depth)];
  }
  return cost;
}

void MovableTrees::Release(Edge edge) {
  for (const std::int32_t hop : FeederOf(edge).hops) {
    left_[static_cast<std::size_t>(hop)] += counts_[edge.tree];
  }
}

void MovableTrees::Take(Edge edge, std::size_t feeder) {
  At(edge.tree, edge.child).feeder = static_cast<std::uint32_t>(feeder);
  for (const std::int32_t hop : FeederOf(edge).hops) {
    left_[static_cast<std::size_t>(hop)] -= counts_[edge.tree];
  }
}

std::int32_t MovableTrees::Blocked(Rank child, std::size_t feeder, std::int64_t trees) const {
  std::int32_t blocked = -1;
  for (const std::int32_t hop : feeders_[child][feeder].hops) {
    if (left_[static_cast<std::size_t>(hop)] >= trees) continue;
    const Arc& arc = problem_.arcs[static_cast<std::size_t>(hop)];
    if (problem_.IsRank(arc.tail) || problem_.IsRank(arc.head)) return hop;
    blocked = hop;
  }
  return blocked;
}

void MovableTrees::Move(Edge edge, std::size_t feeder) {
  Unhang(edge.tree, edge.child);
  Hang(edge.tree, edge.child, feeders_[edge.child][feeder].from);
  Take(edge, feeder);
  SetDepths(edge.tree, edge.child);
}

std::uint32_t MovableTrees::Split(std::uint32_t tree, std::int64_t count) {
  const auto rest = static_cast<std::uint32_t>(roots_.size());
  roots_.push_back(roots_[tree]);
  counts_.push_back(counts_[tree] - count);
  counts_[tree] = count;
  heights_.push_back(heights_[tree]);
  const std::size_t begin = places_.size();
  places_.resize(begin + ranks_);
  std::copy_n(places_.begin() + static_cast<std::ptrdiff_t>(tree * ranks_), ranks_,
              places_.begin() + static_cast<std::ptrdiff_t>(begin));
  return rest;
}

void MovableTrees::Hang(std::uint32_t tree, Rank child, Rank parent) {
  Place& own = At(tree, child);
  Place& above = At(tree, parent);
  own.parent = parent;
  own.previous = kNoRank;
  own.next = above.first_child;
  if (own.next != kNoRank) At(tree, own.next).previous = child;
  above.first_child = child;
}

void MovableTrees::Unhang(std::uint32_t tree, Rank child) {
  const Place& own = At(tree, child);
  if (own.next != kNoRank) At(tree, own.next).previous = own.previous;
  if (own.previous != kNoRank) {
    At(tree, own.previous).next = own.next;
  } else {
    At(tree, own.parent).first_child = own.next;
  }
}

void MovableTrees::SetDepths(std::uint32_t tree, Rank top) {
  ListBelow(tree, top);
  for (const Rank rank : scratch_) {
    Place& place = At(tree, rank);
    place.depth = static_cast<std::uint16_t>(At(tree, place.parent).depth + 1);
  }
  heights_[tree] = 0;
  for (std::size_t r = 0; r < ranks_; ++r) {
    heights_[tree] = std::max<std::int32_t>(heights_[tree], At(tree, static_cast<Rank>(r)).depth);
  }
  steps_ += static_cast<std::int64_t>(ranks_ / 8);
}

bool MovableTrees::Uses(Edge edge, std::int32_t arc) const {
  if (At(edge.tree, edge.child).parent == kNoRank) return false;
  const auto& hops = FeederOf(edge).hops;
  return std::ranges::find(hops, arc) != hops.end();
}

Forest MovableTrees::Collect(const Forest& original) const {
  Forest forest;
  forest.method = original.method;
  forest.rank_count = original.rank_count;
  forest.trees_per_weight = original.trees_per_weight;
  forest.scale = original.scale;
  forest.inverse_rate = original.inverse_rate;
  forest.fallbacks = original.fallbacks;
  std::vector<std::uint32_t> order(roots_.size());
  for (std::uint32_t t = 0; t < order.size(); ++t) order[t] = t;
  std::ranges::stable_sort(order, {}, [&](std::uint32_t t) { return roots_[t]; });
  // Lists the feeders of each arc in the order of the classes, as units are assigned in that order.
  std::map<std::pair<Rank, Rank>, std::vector<std::pair<std::uint32_t, std::int64_t>>> routes;
  for (const std::uint32_t tree : order) {
    forest.classes.push_back({roots_[tree], counts_[tree]});
    for (std::size_t r = 0; r < ranks_; ++r) {
      const auto child = static_cast<Rank>(r);
      const Place& place = At(tree, child);
      forest.parents.push_back(place.parent);
      if (place.parent == kNoRank) continue;
      auto& own = routes[{child, place.parent}];
      if (own.empty() || own.back().first != place.feeder) own.emplace_back(place.feeder, 0);
      own.back().second += counts_[tree];
    }
  }
  for (const auto& [edge, used] : routes) {
    const auto& [child, parent] = edge;
    forest.routes.AddArc(parent, child);
    bool routable = true;
    for (const auto& [feeder, trees] : used) {
      const auto& hops = feeders_[child][feeder].hops;
      forest.routes.AddRoute(trees, hops);
      routable = routable && IsRoutable(problem_, hops);
    }
    if (!routable) ++forest.unroutable_edges;
  }
  forest.routes.Index(forest.rank_count);
  return forest;
}

}  // namespace espalier::forest
