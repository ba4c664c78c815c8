#pragma once

#include <cstdint>

#include "controller/routing/rates.h"
#include "controller/state/state.h"

namespace espalier::controller {

// The rate that each flow will settle at, by water-filling over all flows that have paths: what
// hosts are told as Flow::max_rate_bps, so that senders find it without filling queues first.
//
// A flow that pauses leaves its part to nobody, so this is for programs that send all the time.
// Thread safety: the controller's loop thread.
class RatePlanner {
 public:
  explicit RatePlanner(State& state) : state_(state), rates_(state.view) {}

  // Predicts all rates anew where paths have changed since the last call, and marks the flows dirty
  // whose limit changes by more than a sixteenth. O(flows x hops x passes) where they have.
  void Update();
  // No flow has a limit from now on, until Update is called again.
  void LiftLimits();

 private:
  State& state_;
  RatePredictor rates_;
  std::uint64_t seen_changes_ = 0;
};

}  // namespace espalier::controller
