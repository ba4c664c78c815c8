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
  links_.assign(links, {});
  visited_.assign(links, 0);
  search_ = 0;
  walk_ = 0;
  crowded_.resize(links);
  for (auto& ways : crowded_) ways.clear();
  clos_ends_.clear();
  if (!view_.clos()) return;
  const Clos& clos = *view_.clos();
  clos_ends_.resize(links);
  idle_up_ = clos.up_known;
  idle_down_ = clos.down_known;
  leaf_limits_.assign(2 * std::size_t{clos.leaves}, 0);
  sole_.Reset(clos.leaves, clos.spines);
  for (std::uint32_t leaf = 0; leaf < clos.leaves; ++leaf) {
    for (std::uint32_t spine = 0; spine < clos.spines; ++spine) {
      for (const bool sends : {true, false}) {
        const ClosEnd end{leaf, spine, sends};
        if (LinkAt(end) != kNoLink) clos_ends_[LinkAt(end)] = end;
      }
    }
  }
}

Occupancy::Way Occupancy::Add(std::uint32_t source, std::uint32_t destination, std::int64_t share,
                              bool pinned) {
  Way way = 0;
  if (free_ways_.empty()) {
    way = static_cast<Way>(ways_.size());
    ways_.emplace_back();
  } else {
    way = free_ways_.back();
    free_ways_.pop_back();
  }
  // (Field by field: a copy of a fresh object would wait for its own stores.)
  WayState& state = ways_[way];
  state.candidates = view_.clos() ? nullptr : &view_.Candidates(source, destination);
  state.source = source;
  state.destination = destination;
  state.route = kNoPath;
  state.pinned = pinned;
  state.walk = 0;
  state.live = false;
  state.share = share;
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

std::vector<std::int64_t> Occupancy::Loads() const {
  std::vector<std::int64_t> loads;
  loads.reserve(links_.size());
  for (std::size_t link = 0; link < links_.size(); ++link) loads.push_back(LoadOf(link));
  return loads;
}

std::span<const Occupancy::Way> Occupancy::WaysOn(std::uint32_t link) const {
  if (sole_.is_on() && clos_ends_[link].leaf != kNone) {
    const std::size_t slot = SlotOf(clos_ends_[link]);
    const std::uint16_t peer = sole_.PeerAt(slot);
    if (peer != SoleWays::kNotHere) return {&sole_.WayAt(slot), peer == SoleWays::kIdle ? 0U : 1U};
  }
  const LinkUse& use = links_[link];
  if (use.count > kInlineWays) return crowded_[link];
  return std::span(use.ways).first(use.count);
}

void Occupancy::AddTo(std::uint32_t link, Way way) {
  LinkUse& use = links_[link];
  use.load += ways_[way].share;
  if (use.count < kInlineWays) {
    std::uint32_t at = use.count++;
    for (; at > 0 && use.ways[at - 1] > way; --at) use.ways[at] = use.ways[at - 1];
    use.ways[at] = way;
    return;
  }
  std::vector<Way>& all = crowded_[link];
  if (use.count++ == kInlineWays) all.assign(use.ways.begin(), use.ways.end());
  all.insert(std::lower_bound(all.begin(), all.end(), way), way);
}

void Occupancy::TakeFrom(std::uint32_t link, Way way) {
  LinkUse& use = links_[link];
  use.load -= ways_[way].share;
  if (use.count == 1 && use.ways[0] == way) {
    use.count = 0;
    return;
  }
  Way* const begin = use.count > kInlineWays ? crowded_[link].data() : use.ways.data();
  Way* const end = begin + use.count;
  Way* const found = std::find(begin, end, way);
  ESPALIER_CHECK(found != end, "way={} link={}", way, link);
  std::copy(found + 1, end, found);
  --use.count;
  if (use.count < kInlineWays) return;
  crowded_[link].pop_back();
  if (use.count > kInlineWays) return;
  std::copy(crowded_[link].begin(), crowded_[link].end(), use.ways.begin());
  crowded_[link].clear();
}

void Occupancy::AddAt(const ClosEnd& end, Way way) {
  SetIdle(end, false);
  if (sole_.is_on()) {
    const std::size_t slot = SlotOf(end);
    const std::uint16_t peer = sole_.PeerAt(slot);
    const WayState& state = ways_[way];
    if (peer == SoleWays::kIdle && state.share == kLoadUnit) {
      sole_.Set(slot, end.sends ? state.destination : state.source, way);
      return;
    }
    if (peer != SoleWays::kNotHere) {
      LinkUse& use = links_[LinkAt(end)];
      use.load = LoadAt(end);
      use.count = peer == SoleWays::kIdle ? 0 : 1;
      use.ways[0] = sole_.WayAt(slot);
      sole_.SetNotHere(slot);
    }
  }
  AddTo(LinkAt(end), way);
}

void Occupancy::TakeAt(const ClosEnd& end, Way way) {
  const std::size_t slot = SlotOf(end);
  if (sole_.is_on() && sole_.PeerAt(slot) != SoleWays::kNotHere) {
    ESPALIER_CHECK(sole_.WayAt(slot) == way, "way={} instead of {}", sole_.WayAt(slot), way);
    sole_.SetIdle(slot);
    SetIdle(end, true);
    return;
  }
  const std::uint32_t link = LinkAt(end);
  TakeFrom(link, way);
  const LinkUse& use = links_[link];
  SetIdle(end, use.count == 0);
  if (!sole_.is_on() || use.count > 1) return;
  const Way other = use.ways[0];
  if (use.count == 0) {
    sole_.SetIdle(slot);
  } else if (const WayState& state = ways_[other]; state.share == kLoadUnit) {
    sole_.Set(slot, end.sends ? state.destination : state.source, other);
  }
}

void Occupancy::Put(Way way, std::int32_t route) {
  if (route < 0) return;
  const WayState& state = ways_[way];
  if (state.candidates == nullptr) {
    for (const ClosEnd& end : EndsOf(state, route)) AddAt(end, way);
    return;
  }
  for (const std::uint32_t link : LinksOf(state, route)) AddTo(link, way);
}

void Occupancy::Lift(Way way, std::int32_t route) {
  if (route < 0) return;
  const WayState& state = ways_[way];
  if (state.candidates == nullptr) {
    for (const ClosEnd& end : EndsOf(state, route)) TakeAt(end, way);
    return;
  }
  for (const std::uint32_t link : LinksOf(state, route)) TakeFrom(link, way);
}

void Occupancy::MoveTo(Way way, std::int32_t route) {
  Lift(way, ways_[way].route);
  ways_[way].route = route;
  Put(way, route);
}

void Occupancy::Place(Way way, std::int32_t path) { MoveTo(way, ToRoute(ways_[way], path)); }

void Occupancy::SetShare(Way way, std::int64_t share) {
  const std::int32_t route = ways_[way].route;
  Lift(way, route);
  ways_[way].share = share;
  Put(way, route);
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
      const std::int64_t with = LoadOf(link) + state.share;
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
  for (std::size_t link = 0; link < links_.size(); ++link) {
    const Wide units = Wide{load.numerator} * kLoadUnit * capacities[link];
    const Wide limit =
        bound == Bound::kAtMost ? units / denominator : (units + denominator - 1) / denominator - 1;
    SetLinkLimit(static_cast<std::uint32_t>(link),
                 static_cast<std::int64_t>(std::max(limit, Wide{0})));
  }
}

void Occupancy::SetLinkLimit(std::uint32_t link, std::int64_t units) {
  links_[link].limit = units;
  if (view_.capacities()[link] == 0 || clos_ends_.empty()) return;
  const ClosEnd& end = clos_ends_[link];
  if (end.leaf != kNone) leaf_limits_[LeafSide(end.leaf, end.sends)] = units;
}

std::int64_t Occupancy::CostOf(Way way) const {
  if (!ways_[way].live) return kNotLive;
  return bytes_in_flight_ ? bytes_in_flight_(way) : 0;
}

bool Occupancy::CanMove(Way way, const MoveBudget& budget) const {
  const WayState& state = ways_[way];
  if (state.pinned || budget.moves == 0) return false;
  return !state.live || (budget.live > 0 && CostOf(way) <= budget.bytes);
}

void Occupancy::Charge(Way way, MoveBudget& budget) const {
  --budget.moves;
  if (!ways_[way].live) return;
  --budget.live;
  budget.bytes -= CostOf(way);
}

std::span<const Occupancy::Move> Occupancy::Insert(Way way, const MoveBudget& budget,
                                                   std::int64_t& steps) {
  moves_.clear();
  if (HasTwoSpineChains() && (InsertAlong(way, budget, steps) || budget.moves == 0)) return moves_;
  ++search_;
  queue_.clear();
  if (TryMovesOf(way, kNone, budget, steps)) return moves_;
  return Search(steps);
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
  const std::vector<Way> on(WaysOn(link).begin(), WaysOn(link).end());
  for (const Way way : on) {
    if (TryMovesOf(way, kNone, budget, steps)) return moves_;
  }
  return Search(steps);
}

std::span<const Occupancy::Move> Occupancy::Search(std::int64_t& steps) {
  // Breadth first: the shortest chain moves the fewest flows.
  for (std::uint32_t next = 0; next < queue_.size() && steps > 0; ++next) {
    const Step step = queue_[next];
    for (std::size_t i = 0; i < WaysOn(step.blocked).size(); ++i) {
      const Way way = WaysOn(step.blocked)[i];
      const std::int64_t relieved =
          LoadOf(step.blocked) + Change(step, step.blocked) - ways_[way].share;
      if (way == step.way || relieved > links_[step.blocked].limit) continue;
      if (TryMovesOf(way, next, step.left, steps)) return moves_;
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

bool Occupancy::TryMovesOf(Way way, std::uint32_t parent, const MoveBudget& budget,
                           std::int64_t& steps) {
  const WayState& state = ways_[way];
  const std::uint32_t leaving = parent == kNone ? kNone : queue_[parent].blocked;
  MoveBudget left = budget;
  if (state.route >= 0) {
    if (!CanMove(way, budget)) return false;
    Charge(way, left);
  }
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
      const std::int64_t limit = links_[link].limit;
      std::int64_t load = LoadOf(link) + (is_on_it ? 0 : state.share);
      if (load > limit && parent != kNone) load += Change(queue_[parent], link);
      if (load <= limit) continue;
      // One way can be pushed off one link. (The first step relieves a link that it leaves.)
      if (blocked != kNone || visited_[link] == search_) {
        possible = false;
        break;
      }
      blocked = link;
    }
    if (!possible) continue;
    queue_.push_back({way, route, blocked, parent, left});
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
