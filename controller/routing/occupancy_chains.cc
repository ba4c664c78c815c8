// Chains along two spines of a Clos: see Occupancy.
#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>
#include <tuple>

#include "controller/routing/occupancy.h"

namespace espalier::controller {

Occupancy::Way Occupancy::CheapestAt(const ClosEnd& end, std::int64_t share) const {
  if (!sole_.is_on() || PeerAt(end) == SoleWays::kNotHere) return CheapestOn(LinkAt(end), share);
  if (PeerAt(end) == SoleWays::kIdle || share != kLoadUnit) return kNone;
  const Way way = sole_.WayAt(SlotOf(end));
  return ways_[way].pinned || ways_[way].walk == walk_ ? kNone : way;
}

Occupancy::Way Occupancy::CheapestOn(std::uint32_t link, std::int64_t share) const {
  // What is in flight of a way is mostly far away in memory; the first few are choice enough.
  constexpr int kMostCompared = 8;
  Way best = kNone;
  std::int64_t least = 0;
  int compared = 0;
  const auto on = WaysOn(link);
  for (const Way way : on) {
    const WayState& state = ways_[way];
    if (state.pinned || state.share != share || state.walk == walk_) continue;
    if (++compared > kMostCompared) break;
    const std::int64_t cost = on.size() == 1 ? 0 : CostOf(way);
    if (best != kNone && cost >= least) continue;
    best = way;
    least = cost;
  }
  return best;
}

bool Occupancy::IsCheaper(const MoveBudget& left, const MoveBudget& than) {
  return std::tie(left.bytes, left.live) > std::tie(than.bytes, than.live);
}

Occupancy::Walk Occupancy::Follow(const Chain& chain, std::int64_t share, MoveBudget& budget,
                                  std::size_t length) {
  BeginWalk();
  walk_moves_.clear();
  ClosEnd at = chain.start;
  std::uint32_t other = chain.other;
  for (;;) {
    if (walk_moves_.size() == length) return Walk::kTooLong;
    const Way way = CheapestAt(at, share);
    if (way == kNone || !CanMove(way, budget)) return Walk::kBlocked;
    Charge(way, budget);
    WayState& state = ways_[way];
    state.walk = walk_ & kMostWalks;
    walk_moves_.push_back(
        {way, static_cast<std::int32_t>(at.spine), static_cast<std::int32_t>(other)});
    // Any spine to which both its ends are idle ends the chain: nothing else in it is there.
    const std::int32_t idle = IdleRoute(state.source, state.destination);
    if (idle >= 0 && HasRoomOn(state, idle)) {
      walk_moves_.back().to = idle;
      return Walk::kFound;
    }
    // At its other end it needs a place at the other spine, or takes that of a way that then gets
    // the place which it leaves.
    const ClosEnd left{at.sends ? state.destination : state.source, at.spine, !at.sends};
    at = {left.leaf, other, left.sends};
    if (!IsLive(at)) return Walk::kBlocked;
    if (LoadAt(at) + share <= links_[LinkAt(at)].limit) return Walk::kFound;
    if (!IsLive(left)) return Walk::kBlocked;
    other = left.spine;
  }
}

std::size_t Occupancy::FindShortestOfSole(const MoveBudget& budget, std::int64_t& steps) {
  struct Follower {
    Chain at;
    std::size_t chain;
  };
  std::array<Follower, kMaxChains> open;
  std::size_t count = 0;
  for (const Chain& chain : chains_) {
    open[count] = {chain, count};
    ++count;
  }
  std::size_t best = kNone;
  MoveBudget most_left;
  std::size_t most = budget.moves;
  for (std::size_t length = 1; count > 0 && length <= most && steps > 0; ++length) {
    steps -= static_cast<std::int64_t>(count);
    std::size_t left_open = 0;
    for (std::size_t i = 0; i < count; ++i) {
      auto [at, chain] = open[i];
      const std::uint16_t leaf = PeerAt(at.start);
      if (leaf >= SoleWays::kNotHere) continue;
      const ClosEnd next{leaf, at.other, !at.start.sends};
      if (IdleRouteFrom(at.start, leaf) >= 0 || (IsLive(next) && PeerAt(next) == SoleWays::kIdle)) {
        MoveBudget left = budget;
        if (!WalkSole(chains_[chain], length, left)) continue;
        if (best == kNone) most = std::min(most, std::bit_ceil(length));
        if (best != kNone && !IsCheaper(left, most_left)) continue;
        best = chain;
        most_left = left;
        best_walk_.swap(walk_moves_);
        if (left.live != budget.live) continue;
        walk_moves_.swap(best_walk_);
        return best;  // free of cost
      }
      if (!IsLive(next) || !IsLive({leaf, at.start.spine, next.sends})) continue;
      open[left_open++] = {{next, at.start.spine}, chain};
    }
    count = left_open;
  }
  walk_moves_.swap(best_walk_);
  return best;
}

bool Occupancy::WalkSole(Chain chain, std::size_t length, MoveBudget& budget) {
  walk_moves_.resize(length);
  for (Move& move : walk_moves_) {
    auto& [at, other] = chain;
    move = {sole_.WayAt(SlotOf(at)), static_cast<std::int32_t>(at.spine),
            static_cast<std::int32_t>(other)};
    at.leaf = PeerAt(at);
    at.sends = !at.sends;
    if (PeerAt(at) == SoleWays::kNotHere) return false;  // it has company at its other end
    std::swap(at.spine, other);
  }
  for (const Move& move : walk_moves_) {
    if (!CanMove(move.way, budget)) return false;
    Charge(move.way, budget);
  }
  Move& last = walk_moves_.back();
  const WayState& state = ways_[last.way];
  const std::int32_t idle = IdleRoute(state.source, state.destination);
  if (idle >= 0) last.to = idle;
  return true;
}

std::size_t Occupancy::FindShortest(std::int64_t share, const MoveBudget& budget,
                                    std::int64_t& steps, std::size_t length) {
  // All of them a little way, then those that are left twice as far.
  for (; !chains_.empty(); length *= 2) {
    std::size_t open = 0;
    std::size_t best = kNone;
    MoveBudget most_left;
    for (std::size_t i = 0; i < chains_.size(); ++i) {
      MoveBudget left = budget;
      const Walk walk = Follow(chains_[i], share, left, length);
      steps -= static_cast<std::int64_t>(walk_moves_.size());
      if (walk == Walk::kFound && (best == kNone || IsCheaper(left, most_left))) {
        best = i;
        most_left = left;
        best_walk_.swap(walk_moves_);
        if (left.live == budget.live) break;  // free of cost
      }
      if (walk == Walk::kTooLong && best == kNone) chains_[open++] = chains_[i];
    }
    if (best != kNone) {
      walk_moves_.swap(best_walk_);
      return best;
    }
    chains_.resize(open);
    if (steps <= 0) break;
  }
  return kNone;
}

void Occupancy::TakeWalk() {
  // From the end that has room, so that each comes to a place that has just become free.
  for (auto move = walk_moves_.rbegin(); move != walk_moves_.rend(); ++move) {
    MoveTo(move->way, move->to);
  }
}

void Occupancy::ShiftSole(const ClosEnd& from, std::int32_t to) {
  const ClosEnd end{from.leaf, static_cast<std::uint32_t>(to), from.sends};
  SetIdle(from, true);
  SetIdle(end, false);
  sole_.Swap(SlotOf(from), SlotOf(end));
}

void Occupancy::TakeSole(bool sends) {
  std::span<const Move> chain = walk_moves_;
  const Move& last = chain.back();
  if (chain.size() == 1 || last.to != chain[chain.size() - 2].from) {
    // To a third spine, which is idle at both ends.
    for (const ClosEnd& end : EndsOf(ways_[last.way], last.from)) ShiftSole(end, last.to);
    ways_[last.way].route = last.to;
    chain = chain.first(chain.size() - 1);
  }
  for (std::size_t i = 0; i < chain.size(); ++i, sends = !sends) {
    const auto& [way, from, to] = chain[i];
    const auto ends = EndsOf(ways_[way], from);
    const ClosEnd& near = ends[sends ? 0 : 1];
    const ClosEnd& far = ends[sends ? 1 : 0];
    if (i == 0) ShiftSole(near, to);
    if (i + 1 == chain.size()) {
      ShiftSole(far, to);
    } else {
      sole_.Swap(SlotOf(far), SlotOf({far.leaf, static_cast<std::uint32_t>(to), far.sends}));
    }
    ways_[way].route = to;
  }
}

std::span<const Occupancy::Move> Occupancy::InsertIdle(std::span<const Way> ways) {
  if (ways.empty() || !HasTwoSpineChains()) return {};
  const Clos& clos = *view_.clos();
  const std::uint32_t words = clos.words;
  const bool path_is_spine = clos.all_known;
  const std::uint32_t source = ways_[ways.front()].source;
  const std::size_t up_row = sole_.RowOf(source, true);
  const std::uint64_t* const up_live = &clos.up_live[std::size_t{source} * words];
  const std::uint64_t* const down_live = clos.down_live.data();
  std::uint64_t* const idle_up = &idle_up_[std::size_t{source} * words];
  std::uint64_t* const idle_down = idle_down_.data();
  WayState* const states = ways_.data();
  moves_.resize(std::max(moves_.size(), ways.size()));
  Move* next = moves_.data();
  for (const Way way : ways) {
    WayState& state = states[way];
    const std::size_t row = std::size_t{state.destination} * words;
    std::uint64_t idle = 0;
    std::uint32_t word = 0;
    while (word < words) {
      idle = idle_up[word] & up_live[word] & idle_down[row + word] & down_live[row + word];
      if (idle != 0) break;
      ++word;
    }
    if (idle == 0) continue;
    const std::uint32_t spine = 64 * word + static_cast<std::uint32_t>(std::countr_zero(idle));
    state.route = static_cast<std::int32_t>(spine);
    if (sole_.is_on() && state.share == kLoadUnit) {
      // What Put does, where all that it would find is known.
      const std::uint64_t lowest = idle & -idle;
      idle_up[word] ^= lowest;
      idle_down[row + word] ^= lowest;
      sole_.Set(up_row + spine, state.destination, way);
      sole_.Set(SlotOf({state.destination, spine, false}), source, way);
    } else {
      Put(way, state.route);
    }
    *next++ = {way, kNoPath, path_is_spine ? state.route : ToPath(state, state.route)};
  }
  return std::span(moves_.data(), next);
}

Occupancy::Survey Occupancy::LookAround(const WayState& state) const {
  const Clos& clos = *view_.clos();
  const std::uint32_t* const up = &clos.up[std::size_t{state.source} * clos.spines];
  const std::uint32_t* const down = &clos.down[std::size_t{state.destination} * clos.spines];
  Survey survey;
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (std::uint32_t spine = 0; spine < clos.spines; ++spine) {
    const bool at_source = up[spine] != kNoLink && HasRoom(up[spine], state.share);
    const bool at_destination = down[spine] != kNoLink && HasRoom(down[spine], state.share);
    if (at_source && at_destination) {
      const std::int64_t load = std::max(LoadOf(up[spine]), LoadOf(down[spine]));
      if (load >= least) continue;
      least = load;
      survey.best = static_cast<std::int32_t>(spine);
    } else if (at_source && survey.sources < kMaxChains / 2) {
      survey.at_source[survey.sources++] = spine;
    } else if (at_destination && survey.destinations < kMaxChains / 2) {
      survey.at_destination[survey.destinations++] = spine;
    }
  }
  return survey;
}

Occupancy::Survey Occupancy::LookAtIdle(const WayState& state) const {
  Survey survey;
  const auto list = [&](std::uint32_t leaf, bool sends, auto& spines) {
    std::size_t count = 0;
    for (std::uint32_t word = 0; word < view_.clos()->words; ++word) {
      for (std::uint64_t idle = IdleAt(leaf, sends, word); idle != 0; idle &= idle - 1) {
        if (count == spines.size()) return count;
        spines[count++] = 64 * word + static_cast<std::uint32_t>(std::countr_zero(idle));
      }
    }
    return count;
  };
  survey.sources = list(state.source, true, survey.at_source);
  survey.destinations = list(state.destination, false, survey.at_destination);
  return survey;
}

std::int32_t Occupancy::FindSingleMove(const WayState& state, const MoveBudget& budget) {
  BeginWalk();  // nobody has been taken
  MoveBudget most_left;
  for (const bool sends : {false, true}) {
    const std::uint32_t leaf = sends ? state.source : state.destination;
    const std::uint32_t opposite = sends ? state.destination : state.source;
    for (std::uint32_t word = 0; word < view_.clos()->words; ++word) {
      for (std::uint64_t left = IdleAt(opposite, !sends, word); left != 0; left &= left - 1) {
        const std::uint32_t spine = 64 * word + static_cast<std::uint32_t>(std::countr_zero(left));
        const ClosEnd end{leaf, spine, sends};
        if (!IsLive(end)) continue;
        const std::uint16_t peer = sole_.is_on() ? PeerAt(end) : SoleWays::kNotHere;
        std::int32_t to = peer < SoleWays::kNotHere ? IdleRouteFrom(end, peer) : 0;
        if (to < 0) continue;
        const Way way = CheapestAt(end, state.share);
        if (way == kNone || !CanMove(way, budget)) continue;
        if (peer >= SoleWays::kNotHere) to = IdleRoute(ways_[way].source, ways_[way].destination);
        if (to < 0) continue;
        MoveBudget rest = budget;
        Charge(way, rest);
        if (!walk_moves_.empty() && !IsCheaper(rest, most_left)) continue;
        most_left = rest;
        walk_moves_.assign(1, {way, static_cast<std::int32_t>(spine), to});
        if (rest.live == budget.live) return walk_moves_.front().from;  // free of cost
      }
    }
  }
  return walk_moves_.empty() ? -1 : walk_moves_.front().from;
}

void Occupancy::CollectInsertions(const WayState& state, const Survey& survey) {
  chains_.clear();
  const auto add = [&](const ClosEnd& start, std::uint32_t other) {
    const bool is_usable = IsLive({state.source, start.spine, true}) &&
                           IsLive({state.destination, start.spine, false});
    if (is_usable && chains_.size() < kMaxChains) chains_.push_back({start, other});
  };
  // Of all pairs first those that have no spine in common with each other.
  for (std::size_t shift = 0; shift < survey.destinations; ++shift) {
    for (std::size_t i = 0; i < survey.sources; ++i) {
      const std::uint32_t a = survey.at_source[i];
      const std::uint32_t b = survey.at_destination[(i + shift) % survey.destinations];
      add({state.destination, a, false}, b);
      add({state.source, b, true}, a);
    }
  }
}

std::int32_t Occupancy::MakeRoom(const WayState& state, const MoveBudget& budget,
                                 std::int64_t& steps) {
  // Where a link takes one way only, those with room are the idle ones: no need to look at links.
  const bool one_each = leaf_limits_[LeafSide(state.source, true)] == state.share &&
                        leaf_limits_[LeafSide(state.destination, false)] == state.share;
  const Survey survey = one_each ? LookAtIdle(state) : LookAround(state);
  if (survey.best >= 0 || budget.moves == 0) return survey.best;
  const std::int32_t route = FindSingleMove(state, budget);
  if (route >= 0) {
    TakeWalk();
    return route;
  }
  CollectInsertions(state, survey);
  if (one_each && state.share == kLoadUnit && sole_.is_on()) {
    const std::size_t found = FindShortestOfSole(budget, steps);
    if (found != kNone) {
      TakeSole(chains_[found].start.sends);
      return static_cast<std::int32_t>(chains_[found].start.spine);
    }
  }
  const std::size_t found = FindShortest(state.share, budget, steps);
  if (found == kNone) return -1;
  TakeWalk();
  return static_cast<std::int32_t>(chains_[found].start.spine);
}

bool Occupancy::InsertAlong(Way way, const MoveBudget& budget, std::int64_t& steps) {
  const WayState& state = ways_[way];
  steps -= view_.clos()->spines;
  walk_moves_.clear();
  std::int32_t route = IdleRoute(state.source, state.destination);
  if (route < 0) route = MakeRoom(state, budget, steps);
  if (route < 0) return false;
  MoveTo(way, route);
  moves_.push_back({way, -1, route});
  moves_.insert(moves_.end(), walk_moves_.begin(), walk_moves_.end());
  TellByPath();
  return true;
}

bool Occupancy::RelieveAlong(std::uint32_t link, const MoveBudget& budget, std::int64_t& steps) {
  const ClosEnd end = clos_ends_[link];
  const auto on = WaysOn(link);
  const auto first =
      std::find_if(on.begin(), on.end(), [&](Way way) { return !ways_[way].pinned; });
  if (end.leaf == kNone || first == on.end()) return false;
  const std::int64_t share = ways_[*first].share;
  chains_.clear();
  for (std::uint32_t spine = 0; spine < view_.clos()->spines; ++spine) {
    const std::uint32_t to = LinkAt({end.leaf, spine, end.sends});
    if (to == kNoLink || spine == end.spine || !HasRoom(to, share)) continue;
    chains_.push_back({end, spine});
    if (chains_.size() == kMaxChains) break;
  }
  if (FindShortest(share, budget, steps) == kNone) return false;
  TakeWalk();
  moves_.assign(walk_moves_.begin(), walk_moves_.end());
  TellByPath();
  return true;
}

}  // namespace espalier::controller
