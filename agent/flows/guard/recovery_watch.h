#pragma once

#include <map>
#include <span>

#include "agent/flows/flow_meter.h"
#include "common/base/metrics.h"
#include "common/base/time/event_loop.h"
#include "proto/messages.h"

namespace espalier::agent {

// Measures how long flows that left a dead path take until bytes are acknowledged again. To move is
// not to recover: a transport that waits for its timeout (InfiniBand specification, 9.7.6.1.3:
// 4.096 us x 2^t) sends nothing before, whatever port it has.
//
// A flow with nothing to send has not been held up, and is not watched. Of a split flow all
// subflows with bytes in flight must make progress. The resolution is that of the looks at flows.
// Thread safety: the agent's loop thread. Complexity: O(elephants) for each look while flows are
// watched, else O(1).
class RecoveryWatch {
 public:
  explicit RecoveryWatch(Metrics& metrics);

  // These flows have been taken off dead paths now. A flow that moves again before it has recovered
  // counts from its first move.
  void HandleMoved(TimePoint now, std::span<const wire::LocalFlowId> flows);
  // Input: all elephants, ascending by id. Returns the flows that have recovered, as entries with
  // recovered_us for the controller.
  wire::PathHealth HandleMeasures(TimePoint now, std::span<const FlowMeasure> flows);

 private:
  std::map<wire::LocalFlowId, TimePoint> moved_;  // and when
  LatencyHistogram& recovery_seconds_;
  Gauge& waiting_;
};

}  // namespace espalier::agent
