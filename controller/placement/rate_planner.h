#pragma once

#include <cstdint>

#include "controller/routing/rates.h"
#include "controller/state/state.h"

namespace espalier::controller {

// Sets rate limits (Flow::max_rate_bps): the rate that each flow will settle at, by water-filling
// over all flows that have paths. Senders then need not fill queues to find their rate.
//
// A flow leaves its share to the others while it is idle, if its agent reports edges and its paths
// are parked (Bursts). Else it keeps its share, which suits programs that always send.
// Thread safety: the controller's loop thread.
class RatePlanner {
 public:
  explicit RatePlanner(State& state) : state_(state), rates_(state.view) {}

  // If paths have changed since the last call, predicts all rates and marks the flows whose limit
  // changes by more than a sixteenth for a push. O(flows x hops x passes), else O(1).
  void Update();
  // Removes all limits until Update is called again.
  void LiftLimits();

 private:
  State& state_;
  RatePredictor rates_;
  std::uint64_t seen_changes_ = 0;
};

}  // namespace espalier::controller
