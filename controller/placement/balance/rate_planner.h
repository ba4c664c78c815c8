#pragma once

#include <cstdint>
#include <functional>
#include <tuple>
#include <utility>
#include <vector>

#include "common/base/time/event_loop.h"
#include "controller/placement/loads/load_summary.h"
#include "controller/routing/model/rates.h"
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
// That a flow exists is what a program says, so it takes from others only what it is seen to send:
//   - its demand is twice the rate that it achieves, and grows by kGrowth a round at most from a
//     small start, which the new flows of a NIC divide;
//   - a flow that has sent nothing for a second does not count, as if it was idle;
//   - more than kFlowsOfPair flows from one host to one NIC count less together, the more they are;
//   - no limit is below what the links have left beside these demands (PredictLimits): a flow that
//     begins is not held down, and others give way as it gets faster.
// What a program sends or claims to send beyond that is bounded by its host's NIC.
//
// A flow leaves its share to the others while it is idle, if its agent reports edges. So that no
// rate holds a flow down when others have nothing more to send, rates follow every change between
// busy and idle, in the turn that handles it, and demands every kRound. Only if predicting and
// pushing them takes long they wait, nine times as long. An idle flow keeps its limit until it is
// busy again.
// Thread safety: the controller's loop thread. The references must outlive it.
class RatePlanner {
 public:
  // `view`: that of the state.
  RatePlanner(const State& state, FabricView& view, FlowDecisions& decisions,
              const ControllerOptions& options, EventLoop& loop, std::function<void()> request_turn)
      : state_(state),
        decisions_(decisions),
        options_(options),
        loop_(loop),
        request_turn_(std::move(request_turn)),
        rates_(view) {}

  // If paths, what is busy, demands, or the options have changed since the last call, predicts all
  // rates, marks the flows whose limit changes by more than a sixteenth, and calls `push` if there
  // are any. Lifts the limits of flows that shall have none. O(flows x hops x passes), else O(1).
  void Update(const std::function<void()>& push);

  static constexpr double kGrowth = 4;             // of a demand in a round
  static constexpr double kStart = 1.0 / 16;       // of a NIC, for all its new flows
  static constexpr std::size_t kFlowsOfPair = 64;  // that count in full
  static constexpr Duration kRound = std::chrono::milliseconds(100);
  static constexpr Duration kSilence = std::chrono::seconds(1);

 private:
  // What is known of the sending of the flow in a slot.
  struct Sender {
    AgentId agent;
    wire::LocalFlowId local;
    double demand_bps = 0;   // 0: it has not achieved anything yet
    double counted_bps = 0;  // as in the last prediction; 0: not counted
    std::uint64_t posted_bytes = 0;
    TimePoint sent{};  // when it was last seen to send, or began to be busy
    bool was_busy = false;
  };

  bool LiftLimits();
  bool SetLimits();
  // Takes what busy flows have achieved since the last round. Returns whether a demand has changed
  // so much that limits may.
  bool FollowDemands(TimePoint now);
  Sender& SenderOf(FlowSlot slot);
  std::vector<RatePredictor::Demand> DemandsOf(const Elephants& elephants);

  const State& state_;
  FlowDecisions& decisions_;
  const ControllerOptions& options_;
  EventLoop& loop_;
  std::function<void()> request_turn_;
  RatePredictor rates_;
  std::tuple<std::uint64_t, std::uint64_t, RateLimits> seen_{};
  std::vector<Sender> senders_;  // by slot
  bool has_limits_ = false;
  TimePoint round_{};  // the next one, for demands
  TimePoint next_{};   // not before
  TimerPtr later_;
};

}  // namespace espalier::controller
