#include "controller/placement/arrivals/answering_ends.h"

#include <algorithm>

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

AnsweringEnds::AnsweringEnds(const State& state, FlowDecisions& decisions, PortBinder& ports,
                             Metrics& metrics)
    : state_(state),
      decisions_(decisions),
      ports_(ports),
      count_gauge_(metrics.MakeGauge(
          "espalier_answering_flows",
          "Flows that carry only the acknowledgements of another flow, on its return path")),
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
  decisions_.Answer(slot);
  count_gauge_.Set(++count_);
  Follow(slot);
}

void AnsweringEnds::End(FlowSlot slot) {
  if (decisions_.StopAnswering(slot)) count_gauge_.Set(--count_);
}

void AnsweringEnds::FollowMoves() {
  for (const FlowSlot slot : decisions_.TakeMoved()) {
    if (!state_.flows.IsOpen(slot)) continue;
    const Flow& flow = state_.flows.At(slot);
    if (flow.other_end == OtherEnd::kAnswers) Follow(*flow.opposite);
  }
}

void AnsweringEnds::Follow(FlowSlot slot) {
  const Flow& flow = state_.flows.At(slot);
  const Flow& sending = state_.flows.At(*flow.opposite);
  if (!decisions_.MayMove(slot, Mover::kAnswer) || !state_.HasPaths(sending)) return;
  bool has_moved = false;
  for (std::uint32_t i = 0; i < flow.subflows.size(); ++i) {
    const Subflow& data = sending.subflows[i % sending.subflows.size()];
    const auto back = state_.paths.Opposite(sending.source_leaf, sending.destination_leaf,
                                            *state_.flow_paths.PathOf(data));
    if (!back || back == state_.flow_paths.PathOf(flow.subflows[i])) continue;
    if (!fabric::IsUsable(state_.topology, state_.PathsOf(flow)[back->Index()])) continue;
    decisions_.Place(slot, i, back->value());
    has_moved = true;
  }
  if (!has_moved || !state_.HasPaths(flow)) return;
  decisions_.Park(slot);
  decisions_.SetOrigin(slot, sending.origin);
  ports_.ChoosePorts(slot, sending.reason);
  moved_.Add();
}

}  // namespace espalier::controller
