#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/base/time/event_loop.h"
#include "controller/state/state.h"

namespace espalier::controller {

// Counts open flows to the rounds of their jobs (State::rounds). It keeps for each flow where its
// NICs attach and which group of the job it belongs to.
// Thread safety: the controller's loop thread. The state must outlive it.
class FlowRounds {
 public:
  explicit FlowRounds(State& state) : state_(state) {}

  // The flow has been opened and admitted.
  void HandleOpened(FlowSlot slot);
  // These open flows have become busy or idle, or have more to send. O(1) each.
  void HandleChanges(std::span<const MessageChange> changes);
  // Gives the flow to another job, in the flow table, too.
  void SetJob(FlowSlot slot, std::uint32_t job, TimePoint now);
  // Must be called before the flow is closed.
  void HandleClosed(FlowSlot slot, TimePoint now);

 private:
  State& state_;
  std::vector<JobRounds::Sender> senders_;  // by slot; the ends of an open flow never change
};

}  // namespace espalier::controller
