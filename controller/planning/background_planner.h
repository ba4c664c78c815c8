#pragma once

#include <cstdint>
#include <functional>

#include "common/base/event_loop.h"
#include "common/base/metrics.h"
#include "controller/planning/failure_plans.h"
#include "controller/planning/paced_work.h"
#include "controller/planning/start_predictor.h"
#include "controller/settings/options.h"
#include "controller/state/state.h"

namespace espalier::controller {

// Plans ahead in the background, piece by piece: what jobs start next, and, when that is planned,
// where flows go when a link or switch fails.
// Thread safety: the controller's loop thread. The references must outlive it.
class BackgroundPlanner {
 public:
  struct Callbacks {
    std::function<bool()> has_time;      // false: the loop is late, and no plans are made
    std::function<bool()> is_held;       // agents are awaited, and nothing is to delay them
    std::function<void()> request_turn;  // planning may have asked for ports
  };
  BackgroundPlanner(const State& state, StartPredictor& predictor, FailurePlans& failure_plans,
                    const ControllerOptions& options, EventLoop& loop, Callbacks callbacks,
                    Metrics& metrics);

  // There may be something to plan.
  void Request();
  // The same, if any path has changed since it was last called.
  void RequestAfterChanges();

 private:
  void PlanStarts();
  void RequestFailures();
  void PlanFailures();

  const State& state_;
  StartPredictor& predictor_;
  FailurePlans& failure_plans_;
  const ControllerOptions& options_;
  EventLoop& loop_;
  Callbacks callbacks_;
  PacedWork starts_;
  PacedWork failures_;
  std::uint64_t seen_changes_ = 0;  // FlowPaths::changes when plans were last asked for
  LatencyHistogram& plan_seconds_;
};

}  // namespace espalier::controller
