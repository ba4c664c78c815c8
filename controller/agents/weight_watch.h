#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "common/base/metrics.h"
#include "common/base/time/event_loop.h"
#include "controller/state/state.h"
#include "proto/messages.h"

namespace espalier::controller {

// Finds programs that said that they send over their paths in proportion to weights, and do not: of
// a flow that is divided unequally, the bytes on each path are compared with its share once they
// have been measured for long. If they are clearly closer to equal parts, the flow counts as
// equally divided from then on (FlowDecision::ignores_weights), and an event tells it.
//
// Long, because a program may post to all paths at once and well ahead: then the path with the
// smaller part ends sooner, and until then both are as fast as their links.
// Memory: O(divided flows). Thread safety: the controller's loop thread; the references must
// outlive it.
class WeightWatch {
 public:
  WeightWatch(const State& state, FlowDecisions& decisions, EventHistory& history, EventLoop& loop,
              Metrics& metrics);

  // A host measured a path of this flow. Returns whether a push is pending.
  bool HandleMeasurement(FlowSlot slot, const wire::FlowHealth& health);

 private:
  struct Part {
    std::uint16_t port = 0;
    std::int64_t share = 0;
    double bytes = 0;
    TimePoint last{};  // measurement
  };
  struct Watched {
    AgentId agent;
    wire::LocalFlowId local;
    std::vector<Part> parts;
    Duration measured{};  // of all parts
  };

  Watched& Watch(FlowSlot slot, const Flow& flow);
  bool IsIgnored(const Watched& watched) const;

  const State& state_;
  FlowDecisions& decisions_;
  EventHistory& history_;
  EventLoop& loop_;
  std::map<FlowSlot, Watched> watched_;
  Counter& found_;
};

}  // namespace espalier::controller
