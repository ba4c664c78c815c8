// Chains along two spines of a Clos: see Occupancy.
#include <algorithm>
#include <bit>
#include <limits>

#include "controller/routing/occupancy.h"

namespace espalier::controller {
Occupancy::Way Occupancy::CheapestOn(std::uint32_t link, std::int64_t share) const {
  Way best = kNone;
  for (const Way way : ways_on_[link]) {
    const WayState& state = ways_[way];
    if (state.pinned || state.share != share || state.walk == walk_) continue;
    if (best == kNone || state.bytes < ways_[best].bytes) best = way;
  }
  return best;
}

Occupancy::Walk Occupancy::Follow(const Chain& chain, std::int64_t share, std::int64_t max_bytes,
                                  std::size_t length) {
  ++walk_;
  walk_moves_.clear();
  ClosEnd at = chain.start;
  std::uint32_t other = chain.other;
  for (std::int64_t bytes = 0;;) {
    if (walk_moves_.size() == length) return Walk::kTooLong;
    const Way way = CheapestOn(LinkAt(at), share);
    if (way == kNone) return Walk::kBlocked;
    WayState& state = ways_[way];
    state.walk = walk_;
    bytes += state.bytes;
    if (bytes > max_bytes) return Walk::kBlocked;
    walk_moves_.push_back(
        {way, static_cast<std::int32_t>(at.spine), static_cast<std::int32_t>(other)});
    // At its other end it needs a place at the other spine, or takes that of a way that then gets
    // the place which it leaves.
    const ClosEnd left{at.sends ? state.destination : state.source, at.spine, !at.sends};
    at = {left.leaf, other, left.sends};
    const std::uint32_t link = LinkAt(at);
    if (link == kNoLink || view_.capacities()[link] == 0) return Walk::kBlocked;
    if (HasRoom(link, share)) return Walk::kFound;
    if (view_.capacities()[LinkAt(left)] == 0) return Walk::kBlocked;
    other = left.spine;
  }
}

std::size_t Occupancy::FindShortest(std::int64_t share, const MoveBudget& budget,
                                    std::int64_t& steps) {
  // All of them a little way, then those that are left twice as far.
  for (std::size_t length = 1; !chains_.empty(); length *= 2) {
    const std::size_t allowed = std::min(length, budget.moves);
    std::size_t open = 0;
    for (std::size_t i = 0; i < chains_.size(); ++i) {
      const Walk walk = Follow(chains_[i], share, budget.bytes, allowed);
      steps -= static_cast<std::int64_t>(walk_moves_.size());
      if (walk == Walk::kFound) return i;
      if (walk == Walk::kTooLong) chains_[open++] = chains_[i];
    }
    chains_.resize(open);
    if (allowed == budget.moves || steps <= 0) break;
  }
  return kNone;
}

void Occupancy::TakeWalk() {
  for (const Move& move : walk_moves_) {
    MoveTo(move.way, move.to);
    moves_.push_back(move);
  }
  TellByPath();
}

void Occupancy::NoteIdle(const WayState& state, std::int32_t route) {
  const Clos& clos = *view_.clos();
  const auto spine = static_cast<std::uint32_t>(route);
  const auto note = [&](std::uint32_t leaf, std::uint32_t link, std::vector<std::uint64_t>& idle) {
    const std::uint64_t bit = std::uint64_t{1} << (spine % 64);
    std::uint64_t& word = idle[std::size_t{leaf} * clos.words + spine / 64];
    word = loads_[link] == 0 ? word | bit : word & ~bit;
  };
  note(state.source, LinkAt({state.source, spine, true}), idle_up_);
  note(state.destination, LinkAt({state.destination, spine, false}), idle_down_);
}

std::int32_t Occupancy::IdleRoute(const WayState& state) const {
  const Clos& clos = *view_.clos();
  const std::size_t from = std::size_t{state.source} * clos.words;
  const std::size_t to = std::size_t{state.destination} * clos.words;
  for (std::uint32_t word = 0; word < clos.words; ++word) {
    const std::uint64_t idle = idle_up_[from + word] & clos.up_live[from + word] &
                               idle_down_[to + word] & clos.down_live[to + word];
    if (idle != 0) return static_cast<std::int32_t>(64 * word) + std::countr_zero(idle);
  }
  return -1;
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
      const std::int64_t load = std::max(loads_[up[spine]], loads_[down[spine]]);
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

void Occupancy::CollectInsertions(const WayState& state, const Survey& survey) {
  chains_.clear();
  const auto add = [&](const ClosEnd& start, std::uint32_t other) {
    if (chains_.size() < kMaxChains && IsUsable(state, static_cast<std::int32_t>(start.spine))) {
      chains_.push_back({start, other});
    }
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

bool Occupancy::InsertAlong(Way way, const MoveBudget& budget, std::int64_t& steps) {
  const WayState& state = ways_[way];
  steps -= view_.clos()->spines;
  walk_moves_.clear();
  std::int32_t route = IdleRoute(state);
  if (route < 0) {
    const Survey survey = LookAround(state);
    route = survey.best;
    if (route < 0) {
      if (budget.moves == 0) return false;
      CollectInsertions(state, survey);
      const std::size_t found = FindShortest(state.share, budget, steps);
      if (found == kNone) return false;
      route = static_cast<std::int32_t>(chains_[found].start.spine);
    }
  }
  moves_.push_back({way, -1, route});
  MoveTo(way, route);
  TakeWalk();
  return true;
}

bool Occupancy::RelieveAlong(std::uint32_t link, const MoveBudget& budget, std::int64_t& steps) {
  const ClosEnd end = clos_ends_[link];
  const auto first = std::find_if(ways_on_[link].begin(), ways_on_[link].end(),
                                  [&](Way way) { return !ways_[way].pinned; });
  if (end.leaf == kNone || first == ways_on_[link].end()) return false;
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
  return true;
}

}  // namespace espalier::controller
