#include "deploy/lab/traffic/phased_part.h"

#include <algorithm>
#include <utility>

namespace espalier::traffic {

PhasedPart::PhasedPart(EventLoop& loop, const PhaseSchedule& schedule, PhaseMember member,
                       Actions actions)
    : loop_(loop), schedule_(schedule), member_(std::move(member)), actions_(std::move(actions)) {}

void PhasedPart::Start() { BeginIteration(); }

void PhasedPart::BeginIteration() {
  iteration_start_ = loop_.Now();
  Compute();
}

void PhasedPart::Compute() {
  timer_ = loop_.After(schedule_.ComputeTime(member_.iteration(), member_.phase()),
                       [this] { BeginPhase(); });
}

void PhasedPart::BeginPhase() {
  phase_start_ns_ = NowNs();
  for (const PhaseMember::Outgoing& burst : member_.BeginPhase()) {
    actions_.send(burst.flow, burst.bytes);
  }
  ArriveIfDone();
}

void PhasedPart::HandleAcknowledged(std::uint32_t flow, std::int64_t total_bytes,
                                    std::span<const std::uint16_t> ports) {
  if (!member_.HandleAcknowledged(flow, total_bytes)) return;
  bursts_.push_back({.flow = flow,
                     .iteration = member_.iteration(),
                     .phase = member_.phase(),
                     .start_ns = phase_start_ns_,
                     .end_ns = NowNs(),
                     .ports = {ports.begin(), ports.end()}});
  ArriveIfDone();
}

void PhasedPart::ArriveIfDone() {
  if (member_.IsWaiting()) actions_.arrive(member_.step());
}

void PhasedPart::HandleReleased() {
  const int iteration = member_.iteration();
  member_.HandleReleased();
  if (member_.IsOver()) return actions_.on_over();
  if (member_.iteration() == iteration) return Compute();
  const TimePoint next = iteration_start_ + schedule_.Period(iteration);
  const Duration pause = std::max(Duration::zero(), next - loop_.Now());
  timer_ = loop_.After(pause, [this] { BeginIteration(); });
}

}  // namespace espalier::traffic
