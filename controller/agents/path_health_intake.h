#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "common/base/metrics.h"
#include "common/base/time/event_loop.h"
#include "controller/agents/weight_watch.h"
#include "controller/links/link_health.h"
#include "controller/placement/placement.h"
#include "controller/state/state.h"
#include "proto/messages.h"

namespace espalier::controller {

// Takes hosts' reports on the paths of their flows: measurements, and path failures, when a path
// carries nothing or the agent left it by a local reroute. A host may report the failure of each
// path of a flow once in an interval.
// Thread safety: the controller's loop thread. The references must outlive it.
class PathHealthIntake {
 public:
  PathHealthIntake(State& state, Placement& placement, LinkHealth& link_health, EventLoop& loop,
                   Metrics& metrics);

  // Returns whether a decision or a push is pending.
  bool Handle(AgentId id, const wire::PathHealth& health);

 private:
  // The reports on one flow that were taken in its current interval.
  struct Taken {
    AgentId agent;
    wire::LocalFlowId local;
    TimePoint since{};
    std::size_t count = 0;
  };

  bool IsTaken(FlowSlot slot);
  void NoteRecovery(const std::string& host, const Flow& flow, const wire::FlowHealth& report);

  State& state_;
  Placement& placement_;
  LinkHealth& link_health_;
  EventLoop& loop_;
  WeightWatch weights_;
  std::vector<Taken> taken_;  // by slot, for the slot's latest flow
  Counter& ignored_;
  LatencyHistogram& recovery_seconds_;
};

}  // namespace espalier::controller
