#include "controller/placement/arrivals/bursts.h"

#include <algorithm>

namespace espalier::controller {
namespace {

// The time that a move takes until packets use the new port: a push, the host's next message, and
// what is in flight on the old path.
constexpr Duration kMoveTakes = std::chrono::milliseconds(10);

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
  if (options_.activity == Activity::kBursts) answering_.HandleOpened(slots);
}

void Bursts::HandleProgress(std::span<const MessageChange> changes) {
  if (options_.activity != Activity::kBursts) return;
  for (const MessageChange& change : changes) answering_.HandleProgress(change.slot);
}

bool Bursts::HandleEdges(std::span<const MessageChange> edges) {
  for (const MessageChange& edge : edges) {
    plan_.Prefetch(edge.slot);
    __builtin_prefetch(state_.flows.At(edge.slot).subflows.data());
  }
  bool needs_turn = false;
  for (const MessageChange& edge : edges) {
    if (edge.is_busy) {
      if (HandleBusy(edge.slot)) needs_turn = true;
    } else if (!plan_.PathsOf(edge.slot).empty()) {
      Park(edge.slot);
    }
  }
  return needs_turn;
}

bool Bursts::HandleBusy(FlowSlot slot) {
  const Flow& flow = state_.flows.At(slot);
  if (!flow.is_parked) return false;
  const FlowPaths& paths = state_.flow_paths;
  decisions_.Wake(slot, plan_.IsOnPlan(slot));
  const bool is_usable = std::ranges::all_of(
      flow.subflows, [&](const Subflow& subflow) { return paths.IsOnUsablePath(subflow); });
  const auto collides = [&](const Subflow& subflow) { return !IsWithinLimits(paths, subflow); };
  const bool may_stay = is_usable && (flow.is_on_plan || IsTooShortToMove(slot) ||
                                      !decisions_.MayMove(slot, Mover::kBurst) ||
                                      std::ranges::none_of(flow.subflows, collides));
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

void Bursts::Park(FlowSlot slot) {
  const Flow& flow = state_.flows.At(slot);
  const bool has_paths = flow.status == FlowStatus::kRouted || flow.status == FlowStatus::kLearning;
  if (!has_paths || !state_.HasPaths(flow)) return;
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
