#include "controller/planning/background_planner.h"

#include <algorithm>
#include <utility>

namespace espalier::controller {
namespace {

// The pause before each step: at least this long, so that a burst of changes counts as one, and at
// least this many times the duration of the last step. Failures are rarer than flow arrivals, so
// failure plans get less time.
constexpr Duration kStartPause = std::chrono::microseconds(50);
constexpr int kPausesAStart = 4;
constexpr Duration kFailurePause = std::chrono::milliseconds(2);
constexpr int kPausesAFailure = 19;  // 5 % of the processor
// A step of failure plans takes about so long, as it delays other events.
constexpr Duration kFailureStep = std::chrono::microseconds(100);

}  // namespace

BackgroundPlanner::BackgroundPlanner(const State& state, StartPredictor& predictor,
                                     FailurePlans& failure_plans, const ControllerOptions& options,
                                     EventLoop& loop, Callbacks callbacks, Metrics& metrics)
    : state_(state),
      predictor_(predictor),
      failure_plans_(failure_plans),
      options_(options),
      loop_(loop),
      callbacks_(std::move(callbacks)),
      starts_(loop, kPausesAStart),
      failures_(loop, kPausesAFailure),
      plan_seconds_(metrics.MakeLatency("espalier_prediction_plan_seconds",
                                        "Time to compute the assignment for one predicted start")) {
}

void BackgroundPlanner::Request() {
  if (!options_.plan_ahead || !callbacks_.has_time()) return;
  starts_.Request(kStartPause, [this] { PlanStarts(); });
}

void BackgroundPlanner::RequestAfterChanges() {
  if (std::exchange(seen_changes_, state_.flow_paths.changes()) != state_.flow_paths.changes())
    Request();
}

void BackgroundPlanner::PlanStarts() {
  if (callbacks_.is_held()) return;  // requested again when the agents have answered
  const TimePoint start = loop_.Now();
  const bool has_planned = predictor_.PlanNext(start);
  const Duration spent = loop_.Now() - start;
  starts_.RecordDuration(spent);
  if (!has_planned) {
    RequestFailures();
    return callbacks_.request_turn();
  }
  plan_seconds_.ObserveSeconds(SecondsOf(spent));
  Request();
}

void BackgroundPlanner::RequestFailures() {
  if (!options_.plan_ahead || !callbacks_.has_time()) return;
  failures_.Request(kFailurePause, [this] { PlanFailures(); });
}

void BackgroundPlanner::PlanFailures() {
  if (callbacks_.is_held()) return;
  const TimePoint start = loop_.Now();
  const bool has_planned = failure_plans_.RefreshNext(subflows_a_step_);
  const Duration spent = loop_.Now() - start;
  failures_.RecordDuration(spent);
  // With many tiers a subflow has many paths, and a port must be found for one of them.
  subflows_a_step_ = spent > kFailureStep ? std::max<std::size_t>(subflows_a_step_ / 2, 1)
                                          : std::min(subflows_a_step_ * 2, kMostSubflowsAStep);
  if (!has_planned) return callbacks_.request_turn();
  RequestFailures();
}

}  // namespace espalier::controller
