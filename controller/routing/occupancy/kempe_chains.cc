#include "controller/routing/occupancy/kempe_chains.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>
#include <tuple>

namespace espalier::controller {

SubflowId KempeChains::CheapestAt(const LeafLink& end, std::int64_t share) const {
  const std::uint16_t peer = links_.PeerAt(end);
  if (peer == SingleFlowLinks::kNotTracked)
    return CheapestOn(links_, subflows_, LinkAt(end), share, walk_);
  if (peer == SingleFlowLinks::kIdle || share != kLoadUnit) return kNoSubflow;
  const SubflowId subflow = links_.SingleFlowAt(end);
  return subflows_[subflow].pinned || subflows_[subflow].walk == walk_ ? kNoSubflow : subflow;
}

bool KempeChains::IsCheaper(const MoveBudget& left, const MoveBudget& than) {
  return std::tie(left.bytes, left.in_progress) > std::tie(than.bytes, than.in_progress);
}

KempeChains::Walk KempeChains::Follow(const Chain& chain, std::int64_t share, MoveBudget& budget,
                                      std::size_t length) {
  BeginWalk();
  walk_moves_.clear();
  LeafLink at = chain.start;
  std::uint32_t other = chain.other;
  for (;;) {
    if (walk_moves_.size() == length) return Walk::kTooLong;
    const SubflowId subflow = CheapestAt(at, share);
    if (subflow == kNoSubflow || !subflows_.CanMove(subflow, budget)) return Walk::kBlocked;
    subflows_.Charge(subflow, budget);
    SubflowState& state = subflows_[subflow];
    state.walk = walk_ & kMaxWalks;
    walk_moves_.push_back(
        {subflow, static_cast<std::int32_t>(at.spine), static_cast<std::int32_t>(other)});
    // A spine that is idle at both its ends can end the chain: no other subflow of it is there.
    const std::int32_t idle = links_.idle().RouteBetween(state.source, state.destination);
    if (idle >= 0 && links_.HasRoomOn(state, idle)) {
      walk_moves_.back().to = idle;
      return Walk::kFound;
    }
    // At its other end it needs room on the other spine, or displaces a subflow there, which moves
    // to the link that it leaves.
    const LeafLink left{at.sends ? state.destination : state.source, at.spine, !at.sends};
    at = {left.leaf, other, left.sends};
    if (!IsLive(at)) return Walk::kBlocked;
    if (links_.LoadAt(at) + share <= links_.LimitOf(LinkAt(at))) return Walk::kFound;
    if (!IsLive(left)) return Walk::kBlocked;
    other = left.spine;
  }
}

// All chains advance together by one link per round, and read only the peers in SingleFlowLinks: a
// link's peer is the leaf where the chain continues on the other spine. Only when a chain ends,
// WalkSingleFlows reads its subflows and checks that they may move. Chains end in order of length.
// The first end limits the search to the next power of 2 of its length; within this the cheapest
// chain wins, and one that moves no flow in progress ends the search. Invariant: at the start of a
// round, follower i is at the link that move number `length` of its chain leaves, and `other` is
// the spine to which that move goes. Cost: O(chains) per round, with two reads of memory each.
std::size_t KempeChains::FindShortestAmongSingleFlows(const MoveBudget& budget,
                                                      std::int64_t& steps) {
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
  std::size_t best = kNoChain;
  MoveBudget most_left;
  std::size_t most = budget.moves;
  for (std::size_t length = 1; count > 0 && length <= most && steps > 0; ++length) {
    steps -= static_cast<std::int64_t>(count);
    std::size_t left_open = 0;
    for (std::size_t i = 0; i < count; ++i) {
      auto [at, chain] = open[i];
      const std::uint16_t leaf = links_.SingleFlowPeerAt(at.start);
      if (leaf >= SingleFlowLinks::kNotTracked) continue;
      const LeafLink next{leaf, at.other, !at.start.sends};
      if (links_.idle().RouteFrom(at.start, leaf) >= 0 ||
          (IsLive(next) && links_.SingleFlowPeerAt(next) == SingleFlowLinks::kIdle)) {
        MoveBudget left = budget;
        if (!WalkSingleFlows(chains_[chain], length, left)) continue;
        if (best == kNoChain) most = std::min(most, std::bit_ceil(length));
        if (best != kNoChain && !IsCheaper(left, most_left)) continue;
        best = chain;
        most_left = left;
        best_walk_.swap(walk_moves_);
        if (left.in_progress != budget.in_progress) continue;
        walk_moves_.swap(best_walk_);
        return best;  // moves no flow in progress
      }
      if (!IsLive(next) || !IsLive({leaf, at.start.spine, next.sends})) continue;
      open[left_open++] = {{next, at.start.spine}, chain};
    }
    count = left_open;
  }
  walk_moves_.swap(best_walk_);
  return best;
}

bool KempeChains::WalkSingleFlows(Chain chain, std::size_t length, MoveBudget& budget) {
  walk_moves_.resize(length);
  for (SubflowMove& move : walk_moves_) {
    auto& [at, other] = chain;
    move = {links_.SingleFlowAt(at), static_cast<std::int32_t>(at.spine),
            static_cast<std::int32_t>(other)};
    at.leaf = links_.SingleFlowPeerAt(at);
    at.sends = !at.sends;
    if (links_.SingleFlowPeerAt(at) == SingleFlowLinks::kNotTracked)
      return false;  // not alone at its other end
    std::swap(at.spine, other);
  }
  for (const SubflowMove& move : walk_moves_) {
    if (!subflows_.CanMove(move.subflow, budget)) return false;
    subflows_.Charge(move.subflow, budget);
  }
  SubflowMove& last = walk_moves_.back();
  const SubflowState& state = subflows_[last.subflow];
  const std::int32_t idle = links_.idle().RouteBetween(state.source, state.destination);
  if (idle >= 0) last.to = idle;
  return true;
}

std::size_t KempeChains::FindShortest(std::int64_t share, const MoveBudget& budget,
                                      std::int64_t& steps) {
  // Follows all chains up to a length, then the remaining ones up to twice that length.
  for (std::size_t length = 1; !chains_.empty(); length *= 2) {
    std::size_t open = 0;
    std::size_t best = kNoChain;
    MoveBudget most_left;
    for (std::size_t i = 0; i < chains_.size(); ++i) {
      MoveBudget left = budget;
      const Walk walk = Follow(chains_[i], share, left, length);
      steps -= static_cast<std::int64_t>(walk_moves_.size());
      if (walk == Walk::kFound && (best == kNoChain || IsCheaper(left, most_left))) {
        best = i;
        most_left = left;
        best_walk_.swap(walk_moves_);
        if (left.in_progress == budget.in_progress) break;  // moves no flow in progress
      }
      if (walk == Walk::kTooLong && best == kNoChain) chains_[open++] = chains_[i];
    }
    if (best != kNoChain) {
      walk_moves_.swap(best_walk_);
      return best;
    }
    chains_.resize(open);
    if (steps <= 0) break;
  }
  return kNoChain;
}

void KempeChains::MakeMoves() {
  // In reverse, from the end that has room, so that each move goes to a link that was just freed.
  for (auto move = walk_moves_.rbegin(); move != walk_moves_.rend(); ++move) {
    links_.MoveTo(move->subflow, move->to);
  }
}

void KempeChains::MakeSingleFlowMoves(bool sends) {
  std::span<const SubflowMove> chain = walk_moves_;
  const SubflowMove& last = chain.back();
  if (chain.size() == 1 || last.to != chain[chain.size() - 2].from) {
    // The last move goes to a third spine, which is idle at both ends.
    for (const LeafLink& end : EndsOf(subflows_[last.subflow], last.from))
      links_.Shift(end, last.to);
    subflows_[last.subflow].route = last.to;
    chain = chain.first(chain.size() - 1);
  }
  for (std::size_t i = 0; i < chain.size(); ++i, sends = !sends) {
    const auto& [subflow, from, to] = chain[i];
    const auto ends = EndsOf(subflows_[subflow], from);
    const LeafLink& near = ends[sends ? 0 : 1];
    const LeafLink& far = ends[sends ? 1 : 0];
    if (i == 0) links_.Shift(near, to);
    if (i + 1 == chain.size()) {
      links_.Shift(far, to);
    } else {
      links_.Exchange(far, {far.leaf, static_cast<std::uint32_t>(to), far.sends});
    }
    subflows_[subflow].route = to;
  }
}

KempeChains::Survey KempeChains::SurveySpines(const SubflowState& state) const {
  const Clos& clos = *view_.clos();
  const std::uint32_t* const up = &clos.up[std::size_t{state.source} * clos.spines];
  const std::uint32_t* const down = &clos.down[std::size_t{state.destination} * clos.spines];
  Survey survey;
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (std::uint32_t spine = 0; spine < clos.spines; ++spine) {
    const bool at_source = up[spine] != kNoLink && links_.HasRoom(up[spine], state.share);
    const bool at_destination = down[spine] != kNoLink && links_.HasRoom(down[spine], state.share);
    if (at_source && at_destination) {
      const std::int64_t load = std::max(links_.LoadOf(up[spine]), links_.LoadOf(down[spine]));
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

KempeChains::Survey KempeChains::SurveyIdleSpines(const SubflowState& state) const {
  Survey survey;
  const auto list = [&](std::uint32_t leaf, bool sends, auto& spines) {
    std::size_t count = 0;
    for (std::uint32_t word = 0; word < view_.clos()->words; ++word) {
      for (std::uint64_t idle = links_.idle().At(leaf, sends, word); idle != 0; idle &= idle - 1) {
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

std::int32_t KempeChains::FindSingleMove(const SubflowState& state, const MoveBudget& budget) {
  BeginWalk();  // so that no subflow counts as taken
  MoveBudget most_left;
  const Clos& clos = *view_.clos();
  const IdleSpines& idle = links_.idle();
  for (const bool sends : {false, true}) {
    const std::uint32_t leaf = sends ? state.source : state.destination;
    const std::uint32_t opposite = sends ? state.destination : state.source;
    for (std::uint32_t word = 0; word < clos.words; ++word) {
      for (std::uint64_t left = idle.At(opposite, !sends, word); left != 0; left &= left - 1) {
        const std::uint32_t spine = 64 * word + static_cast<std::uint32_t>(std::countr_zero(left));
        const LeafLink end{leaf, spine, sends};
        if (!end.IsLiveIn(clos)) continue;
        const std::uint16_t peer = links_.PeerAt(end);
        std::int32_t to = peer < SingleFlowLinks::kNotTracked ? idle.RouteFrom(end, peer) : 0;
        if (to < 0) continue;
        const SubflowId subflow = CheapestAt(end, state.share);
        if (subflow == kNoSubflow || !subflows_.CanMove(subflow, budget)) continue;
        if (peer >= SingleFlowLinks::kNotTracked && links_.IsFilledByBase(end)) continue;
        if (peer >= SingleFlowLinks::kNotTracked)
          to = idle.RouteBetween(subflows_[subflow].source, subflows_[subflow].destination);
        if (to < 0) continue;
        MoveBudget rest = budget;
        subflows_.Charge(subflow, rest);
        if (!walk_moves_.empty() && !IsCheaper(rest, most_left)) continue;
        most_left = rest;
        walk_moves_.assign(1, {subflow, static_cast<std::int32_t>(spine), to});
        if (rest.in_progress == budget.in_progress)
          return walk_moves_.front().from;  // not in progress
      }
    }
  }
  return walk_moves_.empty() ? -1 : walk_moves_.front().from;
}

void KempeChains::CollectInsertions(const SubflowState& state, const Survey& survey) {
  chains_.clear();
  const auto add = [&](const LeafLink& start, std::uint32_t other) {
    const bool is_usable = IsLive({state.source, start.spine, true}) &&
                           IsLive({state.destination, start.spine, false}) &&
                           !links_.IsFilledByBase(start);
    if (is_usable && chains_.size() < kMaxChains) chains_.push_back({start, other});
  };
  // Pairs that share no spine with each other come first.
  for (std::size_t shift = 0; shift < survey.destinations; ++shift) {
    for (std::size_t i = 0; i < survey.sources; ++i) {
      const std::uint32_t a = survey.at_source[i];
      const std::uint32_t b = survey.at_destination[(i + shift) % survey.destinations];
      add({state.destination, a, false}, b);
      add({state.source, b, true}, a);
    }
  }
}

std::int32_t KempeChains::MakeRoomFor(const SubflowState& state, const MoveBudget& budget,
                                      std::int64_t& steps) {
  // If links take one subflow each, only idle links have room, and the masks tell which.
  const bool one_each = links_.TakesOneEach(state);
  const Survey survey = one_each ? SurveyIdleSpines(state) : SurveySpines(state);
  if (survey.best >= 0 || budget.moves == 0) return survey.best;
  const std::int32_t route = FindSingleMove(state, budget);
  if (route >= 0) {
    MakeMoves();
    return route;
  }
  CollectInsertions(state, survey);
  if (one_each && state.share == kLoadUnit && links_.has_single_flow_links()) {
    const std::size_t found = FindShortestAmongSingleFlows(budget, steps);
    if (found != kNoChain) {
      MakeSingleFlowMoves(chains_[found].start.sends);
      return static_cast<std::int32_t>(chains_[found].start.spine);
    }
  }
  const std::size_t found = FindShortest(state.share, budget, steps);
  if (found == kNoChain) return -1;
  MakeMoves();
  return static_cast<std::int32_t>(chains_[found].start.spine);
}

std::int32_t KempeChains::MakeRoom(SubflowId subflow, const MoveBudget& budget,
                                   std::int64_t& steps) {
  const SubflowState& state = subflows_[subflow];
  steps -= view_.clos()->spines;
  walk_moves_.clear();
  const std::int32_t idle = links_.idle().RouteBetween(state.source, state.destination);
  return idle >= 0 ? idle : MakeRoomFor(state, budget, steps);
}

std::span<const SubflowMove> KempeChains::Relieve(std::uint32_t link, const MoveBudget& budget,
                                                  std::int64_t& steps) {
  const LeafLink end = links_.EndOf(link);
  const auto on = links_.SubflowsOn(link);
  const auto first = std::find_if(on.begin(), on.end(),
                                  [&](SubflowId subflow) { return !subflows_[subflow].pinned; });
  if (end.leaf == LeafLink::kNoLeaf || first == on.end()) return {};
  const std::int64_t share = subflows_[*first].share;
  chains_.clear();
  for (std::uint32_t spine = 0; spine < view_.clos()->spines; ++spine) {
    const std::uint32_t to = LinkAt({end.leaf, spine, end.sends});
    if (to == kNoLink || spine == end.spine || !links_.HasRoom(to, share)) continue;
    chains_.push_back({end, spine});
    if (chains_.size() == kMaxChains) break;
  }
  if (FindShortest(share, budget, steps) == kNoChain) return {};
  MakeMoves();
  return walk_moves_;
}

}  // namespace espalier::controller
