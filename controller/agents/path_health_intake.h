#pragma once

#include <cstddef>
#include <vector>

#include "common/base/event_loop.h"
#include "common/base/metrics.h"
#include "controller/links/link_health.h"
#include "controller/placement/placement.h"
#include "controller/state/state.h"
#include "proto/messages.h"

namespace espalier::controller {

// Takes what hosts say of the paths of their flows: that one carries nothing, or that the agent
// left it for another by itself. Of each path of a flow a host may say so once in a while. Thread
// safety: the controller's loop thread. The references must outlive it.
class PathHealthIntake {
 public:
  PathHealthIntake(State& state, Placement& placement, LinkHealth& link_health, EventLoop& loop,
                   Metrics& metrics);

  // Whether there is something to decide or to push now.
  bool Handle(AgentId id, const wire::PathHealth& health);

 private:
  // Verdicts on the paths of one flow that were taken in the interval at hand.
  struct Taken {
    AgentId agent;
    wire::LocalFlowId local;
    TimePoint since{};
    std::size_t count = 0;
  };

  bool IsTaken(FlowSlot slot);

  State& state_;
  Placement& placement_;
  LinkHealth& link_health_;
  EventLoop& loop_;
  std::vector<Taken> taken_;  // by slot, of the flow that it was last
  Counter& ignored_;
};

}  // namespace espalier::controller
