#include "controller/routing/occupancy.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "common/base/check.h"

namespace espalier::controller {
namespace {

__extension__ using Wide = __int128;

bool Contains(const PathLinks& links, std::uint32_t link) {
  return std::find(links.begin(), links.end(), link) != links.end();
}

}  // namespace

void Occupancy::Clear() {
  const std::size_t links = view_.capacities().size();
  ways_.clear();
  free_ways_.clear();
  loads_.assign(links, 0);
  limits_.assign(links, 0);
  visited_.assign(links, 0);
  search_ = 0;
  walk_ = 0;
  ways_on_.resize(links);
  for (auto& ways : ways_on_) ways.clear();
  clos_ends_.clear();
  if (!view_.clos()) return;
  const Clos& clos = *view_.clos();
  clos_ends_.resize(links);
  idle_up_ = clos.up_known;
  idle_down_ = clos.down_known;
  for (std::uint32_t leaf = 0; leaf < clos.leaves; ++leaf) {
    for (std::uint32_t spine = 0; spine < clos.spines; ++spine) {
      for (const bool sends : {true, false}) {
        const ClosEnd end{leaf, spine, sends};
        if (LinkAt(end) != kNoLink) clos_ends_[LinkAt(end)] = end;
      }
    }
  }
}

std::uint32_t Occupancy::LinkAt(const ClosEnd& end) const {
  const Clos& clos = *view_.clos();
  return (end.sends ? clos.up : clos.down)[std::size_t{end.leaf} * clos.spines + end.spine];
}

Occupancy::Way Occupancy::Add(std::uint32_t source, std::uint32_t destination, std::int64_t share,
                              bool pinned) {
  const WayState state{
      .candidates = view_.clos() ? nullptr : &view_.Candidates(source, destination),
      .source = source,
      .destination = destination,
      .pinned = pinned,
      .share = share};
  if (free_ways_.empty()) {
    ways_.push_back(state);
    return static_cast<Way>(ways_.size() - 1);
  }
  const Way way = free_ways_.back();
  free_ways_.pop_back();
  ways_[way] = state;
  return way;
}

void Occupancy::Remove(Way way) {
  MoveTo(way, -1);
  free_ways_.push_back(way);
}

std::int32_t Occupancy::ToPath(const WayState& state, std::int32_t route) const {
  if (route < 0 || state.candidates != nullptr) return route;
  return view_.clos()->PathThrough(state.source, state.destination,
                                   static_cast<std::uint32_t>(route));
}

std::int32_t Occupancy::ToRoute(const WayState& state, std::int32_t path) const {
  if (path < 0 || state.candidates != nullptr) return path;
  return static_cast<std::int32_t>(view_.clos()->SpineOf(state.source, state.destination, path));
}

std::size_t Occupancy::RouteCount(const WayState& state) const {
  return state.candidates != nullptr ? state.candidates->size() : view_.clos()->spines;
}

PathLinks Occupancy::LinksOf(const WayState& state, std::int32_t route) const {
  const auto index = static_cast<std::size_t>(route);
  if (state.candidates != nullptr) return PathLinks(state.candidates->Hops(index));
  const Clos& clos = *view_.clos();
  return PathLinks(clos.up[std::size_t{state.source} * clos.spines + index],
                   clos.down[std::size_t{state.destination} * clos.spines + index]);
}

bool Occupancy::IsUsable(const WayState& state, std::int32_t route) const {
  const PathLinks links = LinksOf(state, route);
  return std::all_of(links.begin(), links.end(), [&](std::uint32_t link) {
    return link != kNoLink && view_.capacities()[link] > 0;
  });
}

void Occupancy::Put(Way way, std::int32_t route, int sign) {
  if (route < 0) return;
  const WayState& state = ways_[way];
  for (const std::uint32_t link : LinksOf(state, route)) {
    loads_[link] += sign * state.share;
    auto& on = ways_on_[link];
    if (sign > 0) {
      on.push_back(way);
    } else {
      const auto found = std::find(on.begin(), on.end(), way);
      ESPALIER_CHECK(found != on.end(), "way={} link={}", way, link);
      *found = on.back();
      on.pop_back();
    }
  }
  if (state.candidates == nullptr) NoteIdle(state, route);
}

void Occupancy::MoveTo(Way way, std::int32_t route) {
  Put(way, ways_[way].route, -1);
  ways_[way].route = route;
  Put(way, route, 1);
}

void Occupancy::Place(Way way, std::int32_t path) { MoveTo(way, ToRoute(ways_[way], path)); }

void Occupancy::SetShare(Way way, std::int64_t share) {
  WayState& state = ways_[way];
  if (state.route >= 0) {
    for (const std::uint32_t link : LinksOf(state, state.route)) {
      loads_[link] += share - state.share;
    }
  }
  state.share = share;
}

std::int32_t Occupancy::LeastLoadedPath(Way way) const {
  const WayState& state = ways_[way];
  const auto capacities = view_.capacities();
  std::int32_t best = -1;
  std::int64_t best_load = 0;
  std::int64_t best_capacity = 1;
  for (std::int32_t route = 0; route < static_cast<std::int32_t>(RouteCount(state)); ++route) {
    if (!IsUsable(state, route)) continue;
    std::int64_t load = 0;
    std::int64_t capacity = 1;
    for (const std::uint32_t link : LinksOf(state, route)) {
      const std::int64_t with = loads_[link] + state.share;
      if (Wide{with} * capacity <= Wide{load} * capacities[link]) continue;
      load = with;
      capacity = capacities[link];
    }
    if (best >= 0 && Wide{load} * best_capacity >= Wide{best_load} * capacity) continue;
    best = route;
    best_load = load;
    best_capacity = capacity;
  }
  return ToPath(state, best);
}

void Occupancy::SetLimit(const Load& load, Bound bound) {
  const auto capacities = view_.capacities();
  const Wide denominator = Wide{load.denominator} * view_.unit_bps();
  for (std::size_t link = 0; link < limits_.size(); ++link) {
    const Wide units = Wide{load.numerator} * kLoadUnit * capacities[link];
    const Wide limit =
        bound == Bound::kAtMost ? units / denominator : (units + denominator - 1) / denominator - 1;
    limits_[link] = static_cast<std::int64_t>(std::max(limit, Wide{0}));
  }
}

std::span<const Occupancy::Move> Occupancy::Insert(Way way, const MoveBudget& budget,
                                                   std::int64_t& steps) {
  moves_.clear();
  if (HasTwoSpineChains() && (InsertAlong(way, budget, steps) || budget.moves == 0)) return moves_;
  ++search_;
  queue_.clear();
  // The way's own first move is none of others.
  MoveBudget own = budget;
  if (own.moves != std::numeric_limits<std::size_t>::max()) ++own.moves;
  if (TryMovesOf(way, kNone, own.bytes, steps)) return moves_;
  return Search(own, steps);
}

std::span<const Occupancy::Move> Occupancy::Relieve(std::uint32_t link, const MoveBudget& budget,
                                                    std::int64_t& steps) {
  moves_.clear();
  if (budget.moves == 0) return {};
  if (HasTwoSpineChains() && RelieveAlong(link, budget, steps)) return moves_;
  ++search_;
  queue_.clear();
  visited_[link] = search_;
  // (A copy: what is on the link changes when moves are made.)
  const std::vector<Way> on = ways_on_[link];
  for (const Way way : on) {
    if (!ways_[way].pinned && TryMovesOf(way, kNone, budget.bytes, steps)) return moves_;
  }
  return Search(budget, steps);
}

std::span<const Occupancy::Move> Occupancy::Search(const MoveBudget& budget, std::int64_t& steps) {
  // Breadth first: the shortest chain moves the fewest flows.
  for (std::uint32_t next = 0; next < queue_.size() && steps > 0; ++next) {
    const Step step = queue_[next];
    if (step.depth >= budget.moves) continue;
    for (std::size_t i = 0; i < ways_on_[step.blocked].size(); ++i) {
      const Way way = ways_on_[step.blocked][i];
      const std::int64_t relieved =
          loads_[step.blocked] + Change(step, step.blocked) - ways_[way].share;
      if (ways_[way].pinned || way == step.way || relieved > limits_[step.blocked]) continue;
      if (TryMovesOf(way, next, budget.bytes, steps)) return moves_;
    }
  }
  return {};
}

std::int64_t Occupancy::Change(const Step& step, std::uint32_t link) const {
  const WayState& state = ways_[step.way];
  std::int64_t change = 0;
  if (Contains(LinksOf(state, step.to), link)) change += state.share;
  if (state.route >= 0 && Contains(LinksOf(state, state.route), link)) change -= state.share;
  return change;
}

bool Occupancy::TryMovesOf(Way way, std::uint32_t parent, std::int64_t max_bytes,
                           std::int64_t& steps) {
  const WayState& state = ways_[way];
  const std::uint32_t leaving = parent == kNone ? kNone : queue_[parent].blocked;
  const std::uint32_t depth = parent == kNone ? 1 : queue_[parent].depth + 1;
  // (One without a path has nothing in flight that could be lost.)
  const std::int64_t bytes =
      (parent == kNone ? 0 : queue_[parent].bytes) + (state.route < 0 ? 0 : state.bytes);
  if (bytes > max_bytes) return false;
  const auto routes = static_cast<std::int32_t>(RouteCount(state));
  steps -= routes;
  for (std::int32_t route = 0; route < routes; ++route) {
    if (route == state.route || !IsUsable(state, route)) continue;
    std::uint32_t blocked = kNone;
    bool possible = true;
    for (const std::uint32_t link : LinksOf(state, route)) {
      if (link == leaving) {
        possible = false;
        break;
      }
      const bool is_on_it = state.route >= 0 && Contains(LinksOf(state, state.route), link);
      std::int64_t load = loads_[link] + (is_on_it ? 0 : state.share);
      if (load > limits_[link] && parent != kNone) load += Change(queue_[parent], link);
      if (load <= limits_[link]) continue;
      // One way can be pushed off one link. (The first step relieves a link that it leaves.)
      if (blocked != kNone || visited_[link] == search_) {
        possible = false;
        break;
      }
      blocked = link;
    }
    if (!possible) continue;
    queue_.push_back({way, route, blocked, parent, depth, bytes});
    if (blocked == kNone) {
      if (Apply(static_cast<std::uint32_t>(queue_.size() - 1))) return true;
      queue_.pop_back();
    } else {
      visited_[blocked] = search_;
    }
  }
  return false;
}

bool Occupancy::Apply(std::uint32_t last) {
  moves_.clear();
  for (std::uint32_t at = last; at != kNone; at = queue_[at].parent) {
    moves_.push_back({queue_[at].way, ways_[queue_[at].way].route, queue_[at].to});
  }
  std::reverse(moves_.begin(), moves_.end());
  for (const Move& move : moves_) MoveTo(move.way, move.to);
  // A chain may meet itself (a way or a link twice); what it does then is seen only now.
  const bool fits = std::all_of(moves_.begin(), moves_.end(), [&](const Move& move) {
    const WayState& state = ways_[move.way];
    const PathLinks links = LinksOf(state, state.route);
    return state.route == move.to &&
           std::none_of(links.begin(), links.end(), [&](auto link) { return IsAboveLimit(link); });
  });
  if (!fits) {
    for (auto move = moves_.rbegin(); move != moves_.rend(); ++move) MoveTo(move->way, move->from);
    moves_.clear();
    return false;
  }
  TellByPath();
  return true;
}

void Occupancy::TellByPath() {
  for (Move& move : moves_) {
    move.from = ToPath(ways_[move.way], move.from);
    move.to = ToPath(ways_[move.way], move.to);
  }
}

}  // namespace espalier::controller
