#include "controller/placement/answering_ends.h"

#include <algorithm>
#include <utility>

namespace espalier::controller {

// Problem: which of the two queue pairs of a connection sends data is not known when they open, it
// may change, and progress must stay cheap to handle.
// Idea: compare how much both have sent. Flow::other_end keeps the result beside the fields that
// progress reads anyway, so that a flow whose other end answers costs one comparison.
// Invariant: the opposite of a flow whose other_end is kAnswers is answering, and so parked. If the
// flow that it answers closes, it stays parked until it sends something.

namespace {

constexpr std::uint64_t kNegligible = 16;  // what an answering end sends is less than this part
constexpr std::uint64_t kElephantBytes = 1 << 20;

}  // namespace

AnsweringEnds::AnsweringEnds(State& state, PathLearner& learner, Metrics& metrics)
    : state_(state),
      ports_(state, learner),
      count_gauge_(metrics.MakeGauge(
          "espalier_answering_flows",
          "Flows that carry only the acknowledgements of another flow, and take its path back")),
      moved_(metrics.MakeCounter(
          "espalier_answering_flows_moved_total",
          "Times when acknowledgements got another path because their data had moved")) {}

bool AnsweringEnds::Answers(FlowSlot slot, FlowSlot opposite) const {
  const std::uint64_t own = state_.flows.ActivityOf(slot).posted_bytes;
  const std::uint64_t others = state_.flows.ActivityOf(opposite).posted_bytes;
  return others >= kElephantBytes && own < others / kNegligible;
}

void AnsweringEnds::HandleProgress(FlowSlot slot) {
  const Flow& flow = state_.flows.At(slot);
  if (flow.other_end == OtherEnd::kAnswers) return;
  if (flow.is_answering) {
    if (!flow.opposite || !Answers(slot, *flow.opposite)) End(slot);
  } else if (flow.opposite && Answers(*flow.opposite, slot)) {
    Begin(*flow.opposite);
  }
}

void AnsweringEnds::HandleOpened(std::span<const FlowSlot> slots) {
  for (const FlowSlot slot : slots) {
    const auto opposite = state_.flows.At(slot).opposite;
    if (!opposite) continue;
    HandleProgress(slot);
    HandleProgress(*opposite);
  }
}

void AnsweringEnds::Begin(FlowSlot slot) {
  Flow& flow = state_.flows.At(slot);
  state_.flows.At(*flow.opposite).other_end = OtherEnd::kAnswers;
  flow.other_end = OtherEnd::kSends;
  flow.is_answering = true;
  flow.is_parked = true;
  flow.is_on_plan = false;
  state_.flow_paths.Park(flow);
  count_gauge_.Set(++count_);
  Follow(slot);
}

void AnsweringEnds::End(FlowSlot slot) {
  Forget(slot);
  const auto opposite = state_.flows.At(slot).opposite;
  if (opposite) state_.flows.At(*opposite).other_end = OtherEnd::kSends;
}

void AnsweringEnds::Forget(FlowSlot slot) {
  if (!std::exchange(state_.flows.At(slot).is_answering, false)) return;
  count_gauge_.Set(--count_);
}

void AnsweringEnds::FollowMoves() {
  for (const FlowSlot slot : state_.flow_paths.TakeMoved()) {
    if (!state_.flows.IsOpen(slot)) continue;
    const Flow& flow = state_.flows.At(slot);
    if (flow.other_end == OtherEnd::kAnswers) Follow(*flow.opposite);
  }
}

void AnsweringEnds::Follow(FlowSlot slot) {
  Flow& flow = state_.flows.At(slot);
  const Flow& sending = state_.flows.At(*flow.opposite);
  const bool is_ours = flow.status != FlowStatus::kAdopting && flow.CanMove();
  if (!is_ours || !state_.HasPaths(sending)) return;
  bool has_moved = false;
  for (std::uint32_t i = 0; i < flow.subflows.size(); ++i) {
    const Subflow& data = sending.subflows[i % sending.subflows.size()];
    const auto back = state_.paths.Opposite(sending.source_leaf, sending.destination_leaf,
                                            *state_.flow_paths.PathOf(data));
    Subflow& subflow = flow.subflows[i];
    if (!back || back == state_.flow_paths.PathOf(subflow)) continue;
    if (!fabric::IsUsable(state_.topology, state_.PathsOf(flow)[back->Index()])) continue;
    if (!subflow.id) state_.flow_paths.Add(slot, i);
    state_.flow_paths.Place(subflow, back->value());
    has_moved = true;
  }
  if (!has_moved || !state_.HasPaths(flow)) return;
  state_.flow_paths.Park(flow);
  flow.origin = sending.origin;
  ports_.ChoosePorts(slot, sending.reason);
  moved_.Add();
}

}  // namespace espalier::controller
