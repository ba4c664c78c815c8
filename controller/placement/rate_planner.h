#pragma once

#include <cstdint>
#include <functional>
#include <tuple>
#include <utility>

#include "common/base/event_loop.h"
#include "controller/routing/rates.h"
#include "controller/settings/options.h"
#include "controller/state/state.h"

namespace espalier::controller {

// Whether any flow gets a rate limit. O(1).
bool HasRateLimits(const State& state, const ControllerOptions& options);

// Sets rate limits (Flow::max_rate_bps): the rate that each flow will settle at, by water-filling
// over all flows that have paths. Senders then need not fill queues to find their rate. A flow that
// sends equal parts is as fast as its slowest subflow. One that sends by weights, as far as its
// paths keep up, puts on the others what a full one does not take: it gets the sum of its subflows.
//
// A flow leaves its share to the others while it is idle, if its agent reports edges. Else it keeps
// its share, which suits programs that always send. So that no rate holds a flow down when others
// have nothing more to send, rates follow every change between busy and idle, in the turn that
// handles it. Only if predicting and pushing them takes long they wait, nine times as long. An
// idle flow keeps its limit until it is busy again.
// Thread safety: the controller's loop thread. The references must outlive it.
class RatePlanner {
 public:
  RatePlanner(State& state, const ControllerOptions& options, EventLoop& loop,
              std::function<void()> request_turn)
      : state_(state),
        options_(options),
        loop_(loop),
        request_turn_(std::move(request_turn)),
        rates_(state.view) {}

  // If paths, what is busy, or the options have changed since the last call, predicts all rates,
  // marks the flows whose limit changes by more than a sixteenth, and calls `push` if there are
  // any. Lifts the limits of flows that shall have none. O(flows x hops x passes), else O(1).
  void Update(const std::function<void()>& push);

 private:
  bool LiftLimits();
  bool SetLimits();

  State& state_;
  const ControllerOptions& options_;
  EventLoop& loop_;
  std::function<void()> request_turn_;
  RatePredictor rates_;
  std::tuple<std::uint64_t, std::uint64_t, RateLimits> seen_{};
  bool has_limits_ = false;
  TimePoint next_{};  // not before
  TimerPtr later_;
};

}  // namespace espalier::controller
