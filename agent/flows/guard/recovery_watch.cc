#include "agent/flows/guard/recovery_watch.h"

#include <algorithm>
#include <chrono>

namespace espalier::agent {
namespace {

// Whether a part of the flow has sent nothing from its present port yet, although it wants to.
bool WaitsOnNewPort(const FlowSample& sample) {
  return std::ranges::any_of(sample.ports, [](const PortProgress& port) {
    return port.outstanding_bytes > 0 && port.sent_bytes == 0;
  });
}

bool HasSomethingToSend(const FlowSample& sample) {
  return sample.remaining_bytes > 0 || sample.outstanding_bytes > 0;
}

}  // namespace

RecoveryWatch::RecoveryWatch(Metrics& metrics)
    : recovery_seconds_(metrics.MakeLatency(
          "espalier_agent_flow_recovery_seconds",
          "Time from a flow's move away from a dead path until its bytes were acknowledged again")),
      waiting_(metrics.MakeGauge(
          "espalier_agent_flows_recovering",
          "Flows that were moved away from a dead path and whose bytes are not acknowledged yet")) {
}

void RecoveryWatch::HandleMoved(TimePoint now, std::span<const wire::LocalFlowId> flows) {
  for (const wire::LocalFlowId flow : flows) moved_.try_emplace(flow, now);
}

wire::PathHealth RecoveryWatch::HandleMeasures(TimePoint now, std::span<const FlowMeasure> flows) {
  wire::PathHealth recovered;
  if (moved_.empty()) return recovered;
  auto at = moved_.begin();
  for (const FlowMeasure& flow : flows) {
    while (at != moved_.end() && at->first < flow.sample->id) at = moved_.erase(at);  // ended
    if (at == moved_.end()) break;
    if (at->first != flow.sample->id) continue;
    const TimePoint progress = now - LongestPause(flow);
    if (progress <= at->second || WaitsOnNewPort(*flow.sample)) {
      ++at;  // still waits
      continue;
    }
    if (HasSomethingToSend(*flow.sample)) {
      const Duration took = progress - at->second;
      recovery_seconds_.ObserveSeconds(SecondsOf(took));
      const auto us = std::chrono::ceil<std::chrono::microseconds>(took).count();
      recovered.flows.push_back({.flow = at->first,
                                 .source_port = flow.sample->source_port,
                                 .achieved_bps = flow.achieved_bps,
                                 .retries = flow.sample->retries,
                                 .rtt_us = flow.sample->rtt_us,
                                 .recovered_us = static_cast<std::uint64_t>(us)});
    }
    at = moved_.erase(at);
  }
  moved_.erase(at, moved_.end());
  waiting_.Set(static_cast<double>(moved_.size()));
  return recovered;
}

}  // namespace espalier::agent
