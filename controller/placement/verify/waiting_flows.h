#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>

#include "common/base/time/event_loop.h"
#include "controller/state/flows/flow_table.h"

namespace espalier::controller {

// Since when flows have been in a state that should pass: NEW, ADOPTING or LEARNING. A flow that
// learns a port for milliseconds is as it should be; one that waits for kPatience is not.
// Thread safety: the controller's loop thread.
class WaitingFlows {
 public:
  static constexpr Duration kPatience = std::chrono::seconds(5);

  // Notes which flows wait. To be called about once a second. O(flows).
  void Look(const FlowTable& flows, TimePoint now);
  // How many waited for kPatience or longer at the last look.
  std::size_t late() const { return late_; }
  // One of them, the first by slot.
  std::optional<FlowSlot> first_late() const { return first_late_; }

 private:
  struct Waiting {
    AgentId agent;  // with `local`, which flow it is: slots are used again
    wire::LocalFlowId local;
    TimePoint since;
  };
  std::map<FlowSlot, Waiting> since_;
  std::size_t late_ = 0;
  std::optional<FlowSlot> first_late_;
};

}  // namespace espalier::controller
