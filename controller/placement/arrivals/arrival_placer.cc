#include "controller/placement/arrivals/arrival_placer.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "controller/placement/ports/reachable_paths.h"

namespace espalier::controller {

using wire::PathReason;

namespace {

constexpr std::size_t kMaxEndsRepaired = 256;  // departures that count in one PlaceNew

}  // namespace

// Problem: new flows should get paths at once, with links at or below their even share and few
// moves of flows in progress.
// Idea: PlaceNew handles all flows that are new in this turn together. A flow with a precomputed
// start takes it, if no path has changed since or if its links stay within their even shares. All
// others go through OnlineAssigner, which rearranges a bounded number of flows. Departures leave
// room on some links while others stay above their even share; unused moves relieve these.
// Invariant: flows are handled in the order of InOrder, so the outcome depends on names alone, not
// on the order of messages, unless more flows are new than one turn places. Ports are chosen last,
// when all paths of the turn are decided. A flow that is kNew is in waiting_ or unsettled_, or its
// status was set since the last TakeNew.
// Cost: O(new flows log new flows) besides OnlineAssigner.

std::vector<FlowSlot> InOrder(const State& state, std::vector<FlowSlot> slots) {
  const auto comes_before = [&](FlowSlot a, FlowSlot b) {
    const Flow& x = state.flows.At(a);
    const Flow& y = state.flows.At(b);
    if (x.job != y.job) return state.flows.JobName(x.job) < state.flows.JobName(y.job);
    if (x.agent == y.agent) return x.local < y.local;
    return state.agents.At(x.agent).name < state.agents.At(y.agent).name;
  };
  std::sort(slots.begin(), slots.end(), comes_before);
  return slots;
}

std::set<FlowSlot> ArrivalPlacer::FindPaths(std::span<const FlowSlot> slots,
                                            std::size_t move_limit) {
  const FlowPaths& paths = state_.flow_paths;
  for (const FlowSlot slot : slots) decisions_.AddSubflows(slot);
  std::vector<SubflowId> to_place;
  for (const FlowSlot slot : slots) {
    for (const Subflow& subflow : state_.flows.At(slot).subflows) {
      if (!paths.PathOf(subflow) && !subflow.adopting) to_place.push_back(*subflow.id);
    }
  }
  std::map<SubflowId, std::int32_t> before;  // the first path of each subflow that moved
  for (const OnlineAssigner::Move& move :
       decisions_.PlaceArrivals(to_place, ChainOptions(options_, move_limit))) {
    if (move.from != kNoPath) before.try_emplace(move.subflow, move.from);
  }
  for (const SubflowId arrival : to_place) before.erase(arrival);
  std::set<FlowSlot> others;
  for (const auto& [subflow, path] : before) {
    const FlowPaths::Owner owner = paths.OwnerOf(subflow);
    if (IsUnreachable(state_, state_.flows.At(*owner.slot), paths.PathOf(subflow))) {
      decisions_.Place(*owner.slot, owner.index, path);
    } else {
      others.insert(*owner.slot);
    }
  }
  for (const SubflowId subflow : to_place) {
    const FlowPaths::Owner owner = paths.OwnerOf(subflow);
    if (paths.PathOf(subflow) < 0) decisions_.Remove(*owner.slot, owner.index);
  }
  for (const FlowSlot slot : slots) others.erase(slot);
  return others;
}

std::optional<std::set<FlowSlot>> ArrivalPlacer::Relieve(std::size_t move_limit) {
  const auto made = decisions_.Rebalance(ChainOptions(options_, move_limit));
  std::vector<OnlineAssigner::Move> moves(made.begin(), made.end());
  if (HasUnreachablePath(state_, moves)) {
    std::ranges::reverse(moves);
    for (OnlineAssigner::Move& move : moves) std::swap(move.from, move.to);
    decisions_.Take(moves);
    return std::nullopt;
  }
  std::set<FlowSlot> moved;
  for (const OnlineAssigner::Move& move : moves) {
    moved.insert(state_.flow_paths.FlowOf(move.subflow));
  }
  return moved;
}

std::set<FlowSlot> ArrivalPlacer::RelieveOneByOne(std::size_t move_limit) {
  std::set<FlowSlot> moved;
  const std::vector<FlowSlot> slots = state_.flows.All();
  std::size_t moves = 0;
  // Each move lowers what its flow meets, so moves come to an end.
  for (std::size_t before = move_limit + 1; moves != before;) {
    before = moves;
    for (const FlowSlot slot : slots) {
      if (!decisions_.MayMove(slot, Mover::kRelief)) continue;
      const Flow& flow = state_.flows.At(slot);
      for (std::uint32_t i = 0; i < flow.subflows.size(); ++i) {
        if (moves == move_limit) return moved;
        if (IsWithinLimits(state_.flow_paths, flow.subflows[i])) continue;
        if (!MoveToReachablePath(state_, decisions_, slot, i)) continue;
        moved.insert(slot);
        ++moves;
      }
    }
  }
  return moved;
}

bool ArrivalPlacer::TakePlanned(FlowSlot slot, const StartPredictor::Planned& planned,
                                std::set<FlowSlot>& others) {
  const FlowPaths& paths = state_.flow_paths;
  for (const OnlineAssigner::Move& move : planned.moves) others.insert(paths.FlowOf(move.subflow));
  decisions_.Take(planned.moves);
  const Flow& flow = state_.flows.At(slot);
  bool is_within = true;
  for (std::uint32_t i = 0; i < flow.subflows.size(); ++i) {
    decisions_.Place(slot, i, planned.paths[i]);
    is_within = is_within && (planned.holds || IsWithinLimits(paths, flow.subflows[i]));
  }
  if (is_within) {
    decisions_.SetOrigin(slot, DecisionOrigin::kPredicted);
    return true;
  }
  for (std::uint32_t i = 0; i < flow.subflows.size(); ++i) decisions_.Remove(slot, i);
  return false;
}

bool ArrivalPlacer::IsOpen(const Arrival& arrival) const {
  if (!state_.flows.IsOpen(arrival.slot)) return false;
  const Flow& flow = state_.flows.At(arrival.slot);
  return flow.agent == arrival.agent && flow.local == arrival.local;
}

std::vector<FlowSlot> ArrivalPlacer::TakeFairly(std::size_t most) {
  std::set<AgentId> agents;
  for (const Arrival& arrival : waiting_) agents.insert(arrival.agent);
  const std::size_t of_agent = std::max<std::size_t>(1, most / agents.size());
  std::map<AgentId, std::size_t> taken;
  std::vector<FlowSlot> slots;
  std::vector<Arrival> rest;
  for (const Arrival& arrival : waiting_) {
    if (slots.size() < most && taken[arrival.agent]++ < of_agent) {
      slots.push_back(arrival.slot);
    } else {
      rest.push_back(arrival);
    }
  }
  waiting_ = std::move(rest);
  return slots;
}

std::vector<FlowSlot> ArrivalPlacer::TakeNew(std::size_t most) {
  for (const FlowSlot slot : decisions_.TakeNew()) {
    if (!state_.flows.IsOpen(slot)) continue;
    const Flow& flow = state_.flows.At(slot);
    waiting_.push_back({slot, flow.agent, flow.local});
  }
  std::erase_if(waiting_, [&](const Arrival& arrival) {
    return !IsOpen(arrival) || state_.flows.At(arrival.slot).status != FlowStatus::kNew;
  });
  std::vector<FlowSlot> slots;
  if (waiting_.size() > most) {
    slots = TakeFairly(most);
  } else {
    for (const Arrival& arrival : waiting_) slots.push_back(arrival.slot);
    waiting_.clear();
  }
  slots = InOrder(state_, std::move(slots));
  slots.erase(std::unique(slots.begin(), slots.end()), slots.end());
  return slots;
}

void ArrivalPlacer::QueueToSettle(FlowSlot slot) {
  const Flow& flow = state_.flows.At(slot);
  if (flow.agent.Index() >= unsettled_.size()) unsettled_.resize(flow.agent.Index() + 1);
  std::deque<Arrival>& of_agent = unsettled_[flow.agent.Index()];
  if (of_agent.empty()) to_settle_.push_back(flow.agent);
  of_agent.push_back({slot, flow.agent, flow.local});
}

void ArrivalPlacer::SettleSome(const TimeBudget& budget) {
  constexpr std::size_t kOfAgent = 16;  // between two looks at the clock
  while (!to_settle_.empty()) {
    const AgentId agent = to_settle_.front();
    to_settle_.pop_front();
    std::deque<Arrival>& waiting = unsettled_[agent.Index()];
    for (std::size_t i = 0; i < kOfAgent && !waiting.empty(); ++i) {
      const Arrival arrival = waiting.front();
      waiting.pop_front();
      if (!IsOpen(arrival)) continue;
      const bool is_new = state_.flows.At(arrival.slot).status == FlowStatus::kNew;
      if (is_new) ports_.Settle(arrival.slot, PathReason::kAssigned);
      decisions_.SetInProgress(arrival.slot);
    }
    if (!waiting.empty()) to_settle_.push_back(agent);
    if (budget.IsSpent()) return;
  }
}

ArrivalPlacer::Placed ArrivalPlacer::PlaceNew(StartPredictor& predictor, std::size_t move_limit,
                                              const TimeBudget& budget) {
  const std::vector<FlowSlot> slots =
      TakeNew(budget.has_limit() ? kMostAtOnce : std::numeric_limits<std::size_t>::max());
  Placed placed{.flows = slots.size()};
  std::set<FlowSlot> others;
  std::vector<FlowSlot> unplanned;
  for (const FlowSlot slot : slots) {
    const Flow& flow = state_.flows.At(slot);
    const bool is_bare = std::ranges::none_of(
        flow.subflows, [](const Subflow& subflow) { return subflow.id || subflow.adopting; });
    const auto planned = is_bare ? predictor.Find(slot) : std::nullopt;
    if (planned && TakePlanned(slot, *planned, others)) {
      predictor.Confirm(*planned);
      ++placed.planned;
    } else {
      unplanned.push_back(slot);
    }
  }
  for (const FlowSlot slot : unplanned) {
    predictor.CountMiss(slot);
    decisions_.SetOrigin(slot, DecisionOrigin::kReactive);
  }
  others.merge(FindPaths(unplanned, move_limit));
  const std::size_t changes = slots.size() + std::min(std::exchange(ends_, 0), kMaxEndsRepaired);
  if (others.size() < move_limit * changes) {
    auto relieved = Relieve(move_limit * changes - others.size());
    if (relieved) others.merge(*relieved);
  }
  for (const FlowSlot slot : slots) {
    others.erase(slot);
    QueueToSettle(slot);
  }
  SettleSome(budget);
  for (const FlowSlot slot : others) ports_.ChoosePorts(slot, PathReason::kAssigned);
  placed.moved = others.size();
  return placed;
}

}  // namespace espalier::controller
