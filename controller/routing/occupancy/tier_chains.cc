#include "controller/routing/occupancy/tier_chains.h"

#include <algorithm>
#include <tuple>

namespace espalier::controller {
namespace {

constexpr int kMaxTries = 24;             // chains that fail while they are made, for one subflow
constexpr std::size_t kBlockedAbove = 2;  // what a subflow costs more if nothing is free above
constexpr std::int64_t kFollowSteps = 3;  // of about 10 ns, for one subflow of a chain
constexpr std::int64_t kMoveSteps = 10;
constexpr std::size_t kMaxRelieved = 8;  // subflows on a link that are tried

}  // namespace

std::int32_t TierChains::FindFree(const Ends& ends, std::uint32_t tier, std::uint32_t lower) const {
  const std::uint32_t first = lower * WidthAbove(ends.from[tier]);
  for (std::uint64_t room = Both(ends, tier, lower); room != 0; room &= room - 1) {
    const std::uint32_t label = first + static_cast<std::uint32_t>(std::countr_zero(room));
    if (tier + 1 == ends.top) return static_cast<std::int32_t>(label);
    const std::int32_t found = FindFree(ends, tier + 1, label);
    if (found >= 0) return found;
  }
  return kNoPath;
}

std::int32_t TierChains::MakeRoom(const Ends& ends, std::uint32_t tier, std::uint32_t lower) {
  const std::int32_t free = FindFree(ends, tier, lower);
  if (free >= 0 || left_.moves == 0 || steps_left_ <= 0 || tries_ <= 0) return free;
  Chains chains;
  Collect(ends, tier, lower, chains);
  return TryChains(ends, tier, lower, chains);
}

void TierChains::Collect(const Ends& ends, std::uint32_t tier, std::uint32_t lower,
                         Chains& chains) const {
  const std::uint32_t first = lower * WidthAbove(ends.from[tier]);
  const std::uint64_t up = links_.rooms().At(ends.from[tier], lower, true);
  const std::uint64_t down = links_.rooms().At(ends.to[tier], lower, false);
  const std::uint64_t both = up & down;
  if (tier + 1 < ends.top) {
    for (std::uint64_t left = both; left != 0 && chains.size < kMaxChains / 2; left &= left - 1) {
      Collect(ends, tier + 1, first + static_cast<std::uint32_t>(std::countr_zero(left)), chains);
    }
  }
  const auto list = [&](std::uint64_t tops, std::array<std::uint32_t, kMaxChains / 2>& labels) {
    std::size_t count = 0;
    for (; tops != 0 && count < labels.size(); tops &= tops - 1) {
      labels[count++] = first + static_cast<std::uint32_t>(std::countr_zero(tops));
    }
    return count;
  };
  // With room at one end only, or, for want of such, at both.
  std::array<std::uint32_t, kMaxChains / 2> at_source;
  std::array<std::uint32_t, kMaxChains / 2> at_destination;
  const bool only_source = (up & ~both) != 0;
  const bool only_destination = (down & ~both) != 0;
  const std::size_t sources = list(only_source ? up & ~both : both, at_source);
  const std::size_t destinations = list(only_destination ? down & ~both : both, at_destination);
  // Pairs that share no top with each other come first.
  for (std::size_t shift = 0; shift < destinations; ++shift) {
    for (std::size_t i = 0; i < sources; ++i) {
      const std::uint32_t a = at_source[i];
      const std::uint32_t b = at_destination[(i + shift) % destinations];
      if (only_source) AddChain({tier, ends.to[tier], false, a, b}, chains);
      if (only_destination) AddChain({tier, ends.from[tier], true, b, a}, chains);
    }
  }
  if (tier > 0) CollectLeaving(ends, tier, lower, chains);
}

void TierChains::CollectLeaving(const Ends& ends, std::uint32_t tier, std::uint32_t lower,
                                Chains& chains) const {
  const std::uint32_t width = WidthAbove(ends.from[tier]);
  const std::uint64_t up = links_.rooms().At(ends.from[tier], lower, true);
  const std::uint64_t down = links_.rooms().At(ends.to[tier], lower, false);
  for (std::uint32_t i = 0; i < width && chains.size < kMaxChains; ++i) {
    const std::uint32_t label = lower * width + i;
    const bool can_send = (up >> i & 1) != 0;
    const bool can_receive = (down >> i & 1) != 0;
    if (can_send ? down != 0 : (can_receive ? up != 0 : false)) continue;
    const bool sends = !can_send;
    const std::uint32_t block = sends ? ends.from[tier] : ends.to[tier];
    if (!can_send && !can_receive) {
      const auto on = links_.SubflowsOn(LinkOf(block, sends, label));
      if (on.empty() || subflows_.EndsOf(subflows_[on.front()]).to[tier] != ends.to[tier]) continue;
    }
    AddChain({tier, block, sends, label, kNoTop}, chains);
  }
}

void TierChains::AddChain(const Chain& chain, Chains& chains) const {
  const std::uint32_t link = LinkOf(chain.block, chain.sends, chain.from);
  const bool is_usable = view_.capacities()[link] > 0 && !links_.IsAboveLimit(link);
  if (is_usable && chains.size < kMaxChains) chains.list[chains.size++] = chain;
}

TierChains::Walk TierChains::Follow(const Chain& chain, const Scope& scope, std::size_t length,
                                    MoveBudget& budget, std::size_t& cost) {
  walk_ = (walk_ + 1) & kMaxWalks;
  const std::uint32_t tier = chain.tier;
  const std::uint32_t lower = chain.from / WidthAbove(chain.block);
  std::uint32_t block = chain.block;
  std::uint32_t from = chain.from;
  std::uint32_t to = chain.to;
  bool sends = chain.sends;
  cost = 0;
  for (std::size_t count = 0;; ++count, sends = !sends, std::swap(from, to)) {
    if (count == length) return Walk::kTooLong;
    steps_left_ -= kFollowSteps;
    const SubflowId subflow =
        CheapestOn(links_, subflows_, LinkOf(block, sends, from), share_, walk_);
    if (subflow == kNoSubflow || !subflows_.CanMove(subflow, budget)) return Walk::kBlocked;
    subflows_.Charge(subflow, budget);
    SubflowState& state = subflows_[subflow];
    state.walk = walk_ & kMaxWalks;
    const Ends ends = subflows_.EndsOf(state);
    ++cost;
    // A path that is free can end the chain, except that the room of the newcomer is not taken.
    const bool is_near = ends.from[0] == scope.ends.from[0] || ends.to[0] == scope.ends.to[0];
    const bool is_wide = !is_near || count == 0;
    const std::int32_t free = is_wide ? FindFree(ends, scope.tier, scope.lower) : kNoPath;
    if (free >= 0) {
      steps_.push_back({subflow, ends.top - 1, static_cast<std::uint32_t>(free), true, kNoPath});
      return Walk::kFound;
    }
    if (to == kNoTop) return Walk::kBlocked;
    steps_.push_back({subflow, tier, to, false, kNoPath});
    if (tier + 1 < ends.top && FindFree(ends, tier + 1, to) < 0) cost += kBlockedAbove;
    // At its other end it needs room at its new top, or displaces a subflow there, which moves to
    // the link that it leaves.
    const std::uint32_t far = sends ? ends.to[tier] : ends.from[tier];
    const std::uint32_t bit = to - lower * WidthAbove(block);
    if ((links_.rooms().At(far, lower, !sends) >> bit & 1) != 0) return Walk::kFound;
    const auto is_live = [&](std::uint32_t label) {
      return view_.capacities()[LinkOf(far, !sends, label)] > 0;
    };
    if (!is_live(to) || !is_live(from)) return Walk::kBlocked;
    block = far;
  }
}

std::int32_t TierChains::TryChains(const Ends& ends, std::uint32_t tier, std::uint32_t lower,
                                   Chains& chains) {
  struct Found {
    std::int64_t bytes;
    std::size_t cost;
    std::size_t chain;
    bool operator<(const Found& other) const {
      return std::tie(bytes, cost, chain) < std::tie(other.bytes, other.cost, other.chain);
    }
  };
  const Scope scope{ends, tier, lower};
  const std::size_t begin = steps_.size();
  const std::size_t mark = log_.size();
  const MoveBudget budget = left_;
  for (std::size_t length = 1; chains.size > 0; length *= 2) {
    const std::size_t most = std::min(length, budget.moves);
    std::array<Found, kMaxChains> found;
    std::array<Chain, kMaxChains> good;
    std::size_t count = 0;
    std::size_t open = 0;
    for (std::size_t i = 0; i < chains.size; ++i) {
      MoveBudget rest = budget;
      std::size_t cost = 0;
      const Walk walk = Follow(chains.list[i], scope, most, rest, cost);
      steps_.resize(begin);
      if (walk == Walk::kFound) {
        good[count] = chains.list[i];
        found[count] = {budget.bytes - rest.bytes, cost, count};
        ++count;
      }
      if (walk == Walk::kTooLong) chains.list[open++] = chains.list[i];
    }
    std::sort(found.begin(), found.begin() + static_cast<std::ptrdiff_t>(count));
    for (std::size_t i = 0; i < count; ++i) {
      if (tries_ <= 0 || steps_left_ <= 0) return kNoPath;
      const std::int32_t path = MakeChain(good[found[i].chain], scope, most);
      steps_.resize(begin);
      if (path >= 0) return path;
      Undo(mark, budget);
      --tries_;
    }
    chains.size = open;
    if (most == budget.moves || steps_left_ <= 0) break;
  }
  return kNoPath;
}

std::int32_t TierChains::MakeChain(const Chain& chain, const Scope& scope, std::size_t length) {
  const std::size_t begin = steps_.size();
  MoveBudget rest = left_;
  std::size_t cost = 0;
  if (Follow(chain, scope, length, rest, cost) != Walk::kFound) return kNoPath;
  const std::size_t end = steps_.size();
  for (std::size_t i = begin; i < end; ++i) {
    Step& step = steps_[i];
    step.before = subflows_[step.subflow].route;
    links_.MoveTo(step.subflow, kNoPath);
  }
  // From the end, which has room. Chains above append to steps_.
  for (std::size_t i = end; i-- > begin;) {
    if (MakeStep(i)) continue;
    for (std::size_t j = begin; j <= i; ++j) links_.MoveTo(steps_[j].subflow, steps_[j].before);
    return kNoPath;
  }
  const std::uint32_t lower = chain.from / WidthAbove(chain.block);
  const std::uint32_t bit = chain.from - lower * WidthAbove(chain.block);
  if ((Both(scope.ends, chain.tier, lower) >> bit & 1) == 0) return kNoPath;
  if (chain.tier + 1 == scope.ends.top) return static_cast<std::int32_t>(chain.from);
  return MakeRoom(scope.ends, chain.tier + 1, chain.from);
}

bool TierChains::MakeStep(std::size_t index) {
  const Step step = steps_[index];
  const SubflowState& state = subflows_[step.subflow];
  std::int32_t path = kNoPath;
  if (step.is_path) {
    if (links_.HasRoomOn(state, static_cast<std::int32_t>(step.label))) {
      path = static_cast<std::int32_t>(step.label);
    }
  } else {
    const Ends ends = subflows_.EndsOf(state);
    const std::uint32_t width = WidthAbove(ends.from[step.tier]);
    const std::uint32_t lower = step.label / width;
    if ((Both(ends, step.tier, lower) >> (step.label - lower * width) & 1) != 0) {
      path = step.tier + 1 == ends.top ? static_cast<std::int32_t>(step.label)
                                       : MakeRoom(ends, step.tier + 1, step.label);
    }
  }
  if (path < 0 || !subflows_.CanMove(step.subflow, left_)) return false;
  links_.MoveTo(step.subflow, path);
  subflows_.Charge(step.subflow, left_);
  log_.push_back({step.subflow, step.before, path});
  steps_left_ -= kMoveSteps;
  return true;
}

void TierChains::Undo(std::size_t mark, const MoveBudget& budget) {
  for (; log_.size() > mark; log_.pop_back()) links_.MoveTo(log_.back().subflow, log_.back().from);
  left_ = budget;
}

void TierChains::Begin(std::int64_t share, const MoveBudget& budget, std::int64_t steps) {
  log_.clear();
  steps_.clear();
  share_ = share;
  links_.rooms().SetShare(links_, share);
  left_ = budget;
  steps_left_ = steps;
  tries_ = kMaxTries;
}

std::span<const SubflowMove> TierChains::Insert(SubflowId subflow, const MoveBudget& budget,
                                                std::int64_t& steps) {
  const SubflowState& state = subflows_[subflow];
  Begin(state.share, budget, steps);
  const Ends ends = subflows_.EndsOf(state);
  if (ends.top == clos().tiers) return {};
  const std::int32_t path = MakeRoom(ends, 0, 0);
  steps = steps_left_;
  if (path < 0) return {};
  links_.MoveTo(subflow, path);
  log_.push_back({subflow, kNoPath, path});
  std::reverse(log_.begin(), log_.end());
  return log_;
}

std::span<const SubflowMove> TierChains::Relieve(std::uint32_t link, const MoveBudget& budget,
                                                 std::int64_t& steps) {
  // A copy, as moves change which subflows are on the link.
  const auto all = links_.SubflowsOn(link);
  const auto first = all.first(std::min(all.size(), kMaxRelieved));
  const std::vector<SubflowId> on(first.begin(), first.end());
  for (const SubflowId subflow : on) {
    if (!subflows_.CanMove(subflow, budget) || steps <= 0) continue;
    const SubflowState& state = subflows_[subflow];
    const std::int32_t before = state.route;
    Begin(state.share, budget, steps);
    subflows_.Charge(subflow, left_);
    links_.MoveTo(subflow, kNoPath);
    const std::int32_t path = MakeRoom(subflows_.EndsOf(state), 0, 0);
    steps = steps_left_;
    links_.MoveTo(subflow, path < 0 ? before : path);
    if (path < 0 || path == before) {
      Undo(0, budget);
      continue;
    }
    log_.push_back({subflow, before, path});
    std::reverse(log_.begin(), log_.end());
    return log_;
  }
  return {};
}

}  // namespace espalier::controller
