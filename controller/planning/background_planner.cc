#include "controller/planning/background_planner.h"

#include <utility>

namespace espalier::controller {
namespace {

// Between two plans made ahead: at least this (what comes in a burst is one change), and so many
// times what the last one took. Failures come seldom, flows often: their plans may be behind.
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
                                        "Duration of making one plan ahead")) {}

void BackgroundPlanner::Request() {
  if (!options_.plan_ahead || !callbacks_.has_time()) return;
  starts_.Request(kStartPause, [this] { PlanStarts(); });
}

void BackgroundPlanner::RequestAfterChanges() {
  if (std::exchange(seen_changes_, state_.flow_paths.changes()) != state_.flow_paths.changes())
    Request();
}

void BackgroundPlanner::PlanStarts() {
  if (callbacks_.is_held()) return;  // it is asked for again when the agents have been heard of
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
