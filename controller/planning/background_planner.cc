#include "controller/planning/background_planner.h"

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
  const bool has_planned = failure_plans_.RefreshNext();
  failures_.RecordDuration(loop_.Now() - start);
  if (!has_planned) return callbacks_.request_turn();
  RequestFailures();
}

}  // namespace espalier::controller
