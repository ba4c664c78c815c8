#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "common/base/metrics.h"
#include "common/base/time/event_loop.h"
#include "controller/planning/failure_plans.h"
#include "controller/planning/paced_work.h"
#include "controller/planning/start_predictor.h"
#include "controller/settings/options.h"
#include "controller/state/state.h"

namespace espalier::controller {

// Runs background planning in small steps: first the assignments for predicted starts, and when
// these are up to date, the failure plans.
// Thread safety: the controller's loop thread. The references must outlive it.
class BackgroundPlanner {
 public:
  struct Callbacks {
    std::function<bool()> has_time;  // false: the loop is late, so no plans are made
    std::function<bool()> is_held;   // true: agents' answers are awaited and must not be delayed
    std::function<void()> request_turn;  // called when planning may have requested ports
  };
  BackgroundPlanner(const State& state, StartPredictor& predictor, FailurePlans& failure_plans,
                    const ControllerOptions& options, EventLoop& loop, Callbacks callbacks,
                    Metrics& metrics);

  // Schedules planning, if it is enabled and there is time.
  void Request();
  // As Request, if any path has changed since the last call.
  void RequestAfterChanges();

 private:
  static constexpr std::size_t kMostSubflowsAStep = 100;

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
  std::size_t subflows_a_step_ = kMostSubflowsAStep;  // of failure plans
  std::uint64_t seen_changes_ = 0;  // FlowPaths::changes at the last RequestAfterChanges
  LatencyHistogram& plan_seconds_;
};

}  // namespace espalier::controller
