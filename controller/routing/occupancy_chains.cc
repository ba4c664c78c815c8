// Chains along two spines of a Clos: see Occupancy.
#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>
#include <tuple>

#include "controller/routing/occupancy.h"

namespace espalier::controller {
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
  ++walk_;
  walk_moves_.clear();
  ClosEnd at = chain.start;
  std::uint32_t other = chain.other;
  for (;;) {
    if (walk_moves_.size() == length) return Walk::kTooLong;
    const Way way = CheapestOn(LinkAt(at), share);
    if (way == kNone || !CanMove(way, budget)) return Walk::kBlocked;
    Charge(way, budget);
    WayState& state = ways_[way];
    state.walk = walk_;
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
    const LinkUse& use = links_[LinkAt(at)];
    if (use.load + share <= use.limit) return Walk::kFound;
    if (!IsLive(left)) return Walk::kBlocked;
    other = left.spine;
  }
}

std::size_t Occupancy::KeepShortest(std::size_t most) {
  std::array<Chain, kMaxChains> at;
  std::copy(chains_.begin(), chains_.end(), at.begin());
  std::array<std::uint8_t, kMaxChains> open;
  std::iota(open.begin(), open.end(), std::uint8_t{0});
  std::uint32_t kept = 0;  // a bit each: those that end, or of which peers say nothing
  std::size_t least = 0;
  std::size_t count = chains_.size();
  for (std::size_t length = 1; count > 0 && length <= most; ++length) {
    std::size_t left = 0;
    for (std::size_t i = 0; i < count; ++i) {
      auto& [end, other] = at[open[i]];
      const std::uint16_t leaf = PeerAt(end);
      const ClosEnd next{leaf, other, !end.sends};
      const bool is_known = leaf < LinkPeers::kSeveral;
      if (!is_known || HasIdleRoute(end, leaf) ||
          (IsLive(next) && PeerAt(next) == LinkPeers::kIdle)) {
        kept |= 1U << open[i];
        if (is_known && least == 0) {
          least = std::bit_ceil(length);
          most = std::min(most, least);
        }
        continue;
      }
      if (!IsLive(next) || !IsLive({leaf, end.spine, !end.sends})) continue;
      other = end.spine;
      end = next;
      open[left++] = open[i];
    }
    count = left;
  }
  std::size_t next = 0;
  for (std::size_t i = 0; i < chains_.size(); ++i) {
    if ((kept >> i & 1U) != 0) chains_[next++] = chains_[i];
  }
  chains_.resize(next);
  FetchAhead(least);
  return std::max<std::size_t>(least, 1);
}

void Occupancy::FetchAhead(std::size_t length) const {
  for (auto [end, other] : chains_) {
    for (std::size_t move = 0; move < length; ++move) {
      const std::uint16_t leaf = PeerAt(end);
      if (leaf >= LinkPeers::kSeveral) break;
      const std::uint32_t spine = end.spine;
      __builtin_prefetch(&links_[LinkAt(end)], 1);
      __builtin_prefetch(&links_[LinkAt({leaf, spine, !end.sends})], 1);
      end = {leaf, other, !end.sends};
      other = spine;
    }
  }
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
  moves_.insert(moves_.end(), walk_moves_.begin(), walk_moves_.end());
  // From the end that has room, so that each comes to a place that has just become free.
  for (auto move = moves_.rbegin(); move != moves_.rend(); ++move) MoveTo(move->way, move->to);
  TellByPath();
}

std::uint64_t Occupancy::IdleAt(std::uint32_t leaf, bool sends, std::uint32_t word) const {
  const Clos& clos = *view_.clos();
  const std::size_t at = std::size_t{leaf} * clos.words + word;
  return sends ? idle_up_[at] & clos.up_live[at] : idle_down_[at] & clos.down_live[at];
}

std::int32_t Occupancy::IdleRoute(std::uint32_t source, std::uint32_t destination) const {
  const std::uint32_t words = view_.clos()->words;
  for (std::uint32_t word = 0; word < words; ++word) {
    const std::uint64_t idle = IdleAt(source, true, word) & IdleAt(destination, false, word);
    if (idle != 0) return static_cast<std::int32_t>(64 * word) + std::countr_zero(idle);
  }
  return -1;
}

std::span<const Occupancy::Move> Occupancy::InsertIdle(std::span<const Way> ways) {
  if (ways.empty() || !HasTwoSpineChains()) return {};
  const Clos& clos = *view_.clos();
  const std::uint32_t words = clos.words;
  const std::uint32_t spines = clos.spines;
  const bool path_is_spine = clos.all_known;
  const std::uint32_t source = ways_[ways.front()].source;
  const std::uint32_t* const up = &clos.up[std::size_t{source} * spines];
  const std::uint32_t* const down = clos.down.data();
  const std::uint64_t* const up_live = &clos.up_live[std::size_t{source} * words];
  const std::uint64_t* const down_live = clos.down_live.data();
  std::uint64_t* const idle_up = &idle_up_[std::size_t{source} * words];
  std::uint64_t* const idle_down = idle_down_.data();
  WayState* const states = ways_.data();
  LinkUse* const links = links_.data();
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
    // What Put does, where all that it would find is known.
    const std::uint64_t lowest = idle & -idle;
    idle_up[word] ^= lowest;
    idle_down[row + word] ^= lowest;
    const std::uint32_t spine = 64 * word + static_cast<std::uint32_t>(std::countr_zero(idle));
    const std::int64_t share = state.share;
    for (LinkUse* const use :
         {links + up[spine], links + down[std::size_t{state.destination} * spines + spine]}) {
      use->load = share;
      use->count = 1;
      use->ways[0] = way;
    }
    peers_.Set(source, spine, true, state.destination);
    peers_.Set(state.destination, spine, false, source);
    state.route = static_cast<std::int32_t>(spine);
    *next++ = {way, kNoPath, path_is_spine ? state.route : ToPath(state, state.route)};
  }
  return std::span(moves_.data(), next);
}

bool Occupancy::TakesOneEach(const ClosEnd& end, std::int64_t share) const {
  const Clos& clos = *view_.clos();
  for (std::uint32_t spine = 0; spine < clos.spines; ++spine) {
    const ClosEnd at{end.leaf, spine, end.sends};
    if (IsLive(at)) return links_[LinkAt(at)].limit == share;
  }
  return true;
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
      const std::int64_t load = std::max(links_[up[spine]].load, links_[down[spine]].load);
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
  ++walk_;  // nobody has been taken
  MoveBudget most_left;
  for (const bool sends : {false, true}) {
    const std::uint32_t leaf = sends ? state.source : state.destination;
    const std::uint32_t opposite = sends ? state.destination : state.source;
    for (std::uint32_t word = 0; word < view_.clos()->words; ++word) {
      for (std::uint64_t left = IdleAt(opposite, !sends, word); left != 0; left &= left - 1) {
        const std::uint32_t spine = 64 * word + static_cast<std::uint32_t>(std::countr_zero(left));
        const ClosEnd end{leaf, spine, sends};
        if (!IsLive(end)) continue;
        const std::uint16_t peer = peers_.is_on() ? PeerAt(end) : LinkPeers::kSeveral;
        if (peer < LinkPeers::kSeveral && !HasIdleRoute(end, peer)) continue;
        const Way way = CheapestOn(LinkAt(end), state.share);
        if (way == kNone || !CanMove(way, budget)) continue;
        const std::int32_t to = IdleRoute(ways_[way].source, ways_[way].destination);
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
  const bool one_each = TakesOneEach({.leaf = state.source, .sends = true}, state.share) &&
                        TakesOneEach({.leaf = state.destination, .sends = false}, state.share);
  const Survey survey = one_each ? LookAtIdle(state) : LookAround(state);
  if (survey.best >= 0 || budget.moves == 0) return survey.best;
  const std::int32_t route = FindSingleMove(state, budget);
  if (route >= 0) return route;
  CollectInsertions(state, survey);
  std::size_t found = kNone;
  if (one_each && peers_.is_on()) {
    const std::size_t length = KeepShortest(budget.moves);
    found = FindShortest(state.share, budget, steps, length);
    if (found == kNone) CollectInsertions(state, survey);  // those may not move: any other
  }
  if (found == kNone) found = FindShortest(state.share, budget, steps);
  return found == kNone ? -1 : static_cast<std::int32_t>(chains_[found].start.spine);
}

bool Occupancy::InsertAlong(Way way, const MoveBudget& budget, std::int64_t& steps) {
  const WayState& state = ways_[way];
  steps -= view_.clos()->spines;
  walk_moves_.clear();
  std::int32_t route = IdleRoute(state.source, state.destination);
  if (route < 0) route = MakeRoom(state, budget, steps);
  if (route < 0) return false;
  moves_.push_back({way, -1, route});
  TakeWalk();
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
  return true;
}

}  // namespace espalier::controller
