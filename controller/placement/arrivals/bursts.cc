#include "controller/placement/arrivals/bursts.h"

#include <algorithm>

namespace espalier::controller {
namespace {

// The time that a move takes until packets use the new port: a push, the host's next message, and
// what is in flight on the old path.
constexpr Duration kMoveTakes = std::chrono::milliseconds(10);

// Whether it has ports of its own, or is to get them.
bool IsSteered(const Flow& flow) {
  return flow.status == FlowStatus::kRouted || flow.status == FlowStatus::kLearning ||
         flow.status == FlowStatus::kNew || flow.status == FlowStatus::kAdopting;
}

}  // namespace

Bursts::Bursts(State& state, FlowDecisions& decisions, PortBinder& ports,
               const StartPredictor& predictor, const ControllerOptions& options, Metrics& metrics)
    : state_(state),
      phases_(state.phases),
      decisions_(decisions),
      ports_(ports),
      plan_(state, predictor, options, metrics),
      answering_(state, decisions, ports, metrics),
      options_(options),
      undecided_(metrics.MakeCounter(
          "espalier_bursts_without_decision_total",
          "Times when an idle flow became busy and kept its paths without any decision")),
      decided_(metrics.MakeCounter(
          "espalier_bursts_decided_total",
          "Times when an idle flow became busy and needed other paths because of a collision")),
      unready_bursts_(metrics.MakeCounter(
          "espalier_bursts_unready_total",
          "Times when an open flow became busy before the right ports were in force at its host")),
      moved_idle_(metrics.MakeCounter("espalier_idle_flows_moved_total",
                                      "Flows that were moved to their planned paths while idle")) {}

bool Bursts::IsTracked(FlowSlot slot) const {
  return options_.activity == Activity::kBursts && state_.flows.ActivityOf(slot).ReportsEdges();
}

bool Bursts::IsTooShortToMove(FlowSlot slot) const {
  const Duration usual = plan_.DurationOf(slot);
  return usual > Duration{} && usual < kMoveTakes;
}

void Bursts::HandleOpened(std::span<const FlowSlot> slots) {
  if (options_.activity != Activity::kBursts) return;
  answering_.HandleOpened(slots);
}

void Bursts::HandleProgress(std::span<const MessageChange> changes) {
  if (options_.activity != Activity::kBursts) return;
  for (const MessageChange& change : changes) answering_.HandleProgress(change.slot);
}

bool Bursts::HandleEdges(std::span<const MessageChange> edges) {
  unready_.clear();
  for (const MessageChange& edge : edges) {
    plan_.Prefetch(edge.slot);
    __builtin_prefetch(state_.flows.At(edge.slot).subflows.data());
    __builtin_prefetch(&state_.flows.PushOf(edge.slot));
  }
  bool needs_turn = false;
  for (const MessageChange& edge : edges) {
    if (edge.is_busy) {
      if (HandleBusy(edge.slot)) needs_turn = true;
    } else if (!plan_.PathsOf(edge.slot).empty()) {
      Park(edge.slot);
    }
  }
  if (!unready_.empty()) unready_bursts_.Add(static_cast<std::int64_t>(unready_.size()));
  return needs_turn;
}

bool Bursts::HasItsPorts(FlowSlot slot) const {
  const Flow& flow = state_.flows.At(slot);
  const PushState& push = state_.flows.PushOf(slot);
  return flow.status == FlowStatus::kRouted && !push.is_dirty &&
         push.generation <= state_.agents.At(flow.agent).acked_generation;
}

bool Bursts::HandleBusy(FlowSlot slot) {
  const Flow& flow = state_.flows.At(slot);
  const FlowPaths& paths = state_.flow_paths;
  const bool was_parked = flow.is_parked;
  if (!was_parked && !IsSteered(flow)) return false;
  if (was_parked) decisions_.Wake(slot, plan_.IsOnPlan(slot));
  const bool is_usable = std::ranges::all_of(
      flow.subflows, [&](const Subflow& subflow) { return paths.IsOnUsablePath(subflow); });
  const auto collides = [&](const Subflow& subflow) { return !IsWithinLimits(paths, subflow); };
  const bool is_right =
      is_usable && (flow.is_on_plan || std::ranges::none_of(flow.subflows, collides));
  if (!is_right || !HasItsPorts(slot)) unready_.push_back(slot);
  if (!was_parked) return false;  // it has counted all the time, and others have made room for it
  const bool may_stay =
      is_right ||
      (is_usable && (IsTooShortToMove(slot) || !decisions_.MayMove(slot, Mover::kBurst)));
  if (may_stay || flow.status == FlowStatus::kAdopting) {
    decisions_.SetInProgress(slot);
    undecided_.Add();
    return false;
  }
  for (std::uint32_t i = 0; i < flow.subflows.size(); ++i) {
    if (!flow.subflows[i].adopting && collides(flow.subflows[i])) decisions_.Remove(slot, i);
  }
  decided_.Add();
  decisions_.PlaceAgain(slot);
  return true;
}

bool Bursts::HasPathsToKeep(const Flow& flow) const {
  return (flow.status == FlowStatus::kRouted || flow.status == FlowStatus::kLearning) &&
         state_.HasPaths(flow);
}

void Bursts::Park(FlowSlot slot) {
  const Flow& flow = state_.flows.At(slot);
  if (!HasPathsToKeep(flow)) return;
  decisions_.Park(slot);
  if (!decisions_.MayMove(slot, Mover::kPlan) || plan_.IsOnPlan(slot)) return;
  const auto planned = plan_.PathsOf(slot);
  const auto is_usable = [&](std::int32_t path) {
    return fabric::IsUsable(state_.topology, state_.PathsOf(flow)[static_cast<std::size_t>(path)]);
  };
  if (planned.size() != flow.subflows.size() || !std::ranges::all_of(planned, is_usable)) return;
  decisions_.FollowPlan(slot, planned);
  ports_.ChoosePorts(slot, wire::PathReason::kPredicted);
  moved_idle_.Add();
}

std::size_t Bursts::RefreshPlan(TimePoint now) {
  if (options_.activity != Activity::kBursts || !plan_.Refresh(now)) return 0;
  phases_.Set(plan_.phases());
  std::size_t lost = 0;
  for (const FlowSlot slot : state_.flows.All()) {
    const Flow& flow = state_.flows.At(slot);
    const bool is_planned = !plan_.PathsOf(slot).empty();
    if (is_planned && IsTracked(slot) && !state_.flows.ActivityOf(slot).IsBusy()) {
      Park(slot);
    } else if (!is_planned && !flow.is_answering && (flow.is_parked || flow.is_on_plan)) {
      ++lost;
    }
    if (!is_planned && flow.is_parked && !flow.is_answering) {
      decisions_.Wake(slot, flow.is_on_plan);
    }
    decisions_.SetOnPlan(slot, is_planned && plan_.IsOnPlan(slot));
  }
  return lost;
}

}  // namespace espalier::controller
