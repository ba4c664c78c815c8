// Chains along two spines of a Clos: see Occupancy.
#include <algorithm>

#include "controller/routing/occupancy.h"

namespace espalier::controller {
namespace {

// More chains to choose among are shorter, but cost more to look at.
constexpr std::size_t kMaxChains = 16;

}  // namespace

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

void Occupancy::CollectInsertions(Way way) {
  const WayState& state = ways_[way];
  const Clos& clos = *view_.clos();
  chains_.clear();
  // Spines with room at one end only, for each end.
  std::uint32_t at_source[kMaxChains / 2];
  std::uint32_t at_destination[kMaxChains / 2];
  std::size_t sources = 0;
  std::size_t destinations = 0;
  for (std::uint32_t spine = 0; spine < clos.spines; ++spine) {
    const std::uint32_t up = LinkAt({state.source, spine, true});
    const std::uint32_t down = LinkAt({state.destination, spine, false});
    if (up != kNoLink && sources < kMaxChains / 2 && HasRoom(up, state.share)) {
      at_source[sources++] = spine;
    }
    if (down != kNoLink && destinations < kMaxChains / 2 && HasRoom(down, state.share)) {
      at_destination[destinations++] = spine;
    }
  }
  const auto add = [&](const ClosEnd& start, std::uint32_t other) {
    if (chains_.size() < kMaxChains && IsUsable(state, static_cast<std::int32_t>(start.spine))) {
      chains_.push_back({start, other});
    }
  };
  // Of all pairs first those that have no spine in common with each other.
  for (std::size_t shift = 0; shift < destinations; ++shift) {
    for (std::size_t i = 0; i < sources; ++i) {
      const std::uint32_t a = at_source[i];
      const std::uint32_t b = at_destination[(i + shift) % destinations];
      add({state.destination, a, false}, b);
      add({state.source, b, true}, a);
    }
  }
}

bool Occupancy::InsertAlong(Way way, const MoveBudget& budget, std::int64_t& steps) {
  const WayState& state = ways_[way];
  steps -= view_.clos()->spines;
  if (const std::int32_t path = LeastLoadedPath(way, true); path >= 0) {
    moves_.push_back({way, -1, path});
    Place(way, path);
    return true;
  }
  if (budget.moves == 0) return false;
  CollectInsertions(way);
  const std::size_t found = FindShortest(state.share, budget, steps);
  if (found == kNone) return false;
  moves_.push_back({way, -1, static_cast<std::int32_t>(chains_[found].start.spine)});
  MoveTo(way, moves_.front().to);
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
