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

BackgroundPlanner::BackgroundPlanner(const State& state, Foresight& foresight,
                                     FailurePlans& failure_plans, const ControllerOptions& options,
                                     EventLoop& loop, Wiring wiring, Metrics& metrics)
    : state_(state),
      foresight_(foresight),
      failure_plans_(failure_plans),
      options_(options),
      loop_(loop),
      wiring_(std::move(wiring)),
      starts_(loop, kPausesAStart),
      failures_(loop, kPausesAFailure),
      plan_seconds_(metrics.MakeLatency("espalier_foresight_plan_seconds",
                                        "Duration of making one plan ahead")) {}

void BackgroundPlanner::Request() {
  if (!options_.plan_ahead || !wiring_.has_time()) return;
  starts_.Request(kStartPause, [this] { PlanStarts(); });
}

void BackgroundPlanner::RequestAfterChanges() {
  if (std::exchange(seen_changes_, state_.flow_paths.changes()) != state_.flow_paths.changes())
    Request();
}

void BackgroundPlanner::PlanStarts() {
  if (wiring_.is_held()) return;  // it is asked for again when the agents have been heard of
  const TimePoint start = loop_.Now();
  const bool has_planned = foresight_.PlanNext(start);
  const Duration spent = loop_.Now() - start;
  starts_.Took(spent);
  if (!has_planned) {
    RequestFailures();
    return wiring_.request_turn();
  }
  plan_seconds_.ObserveSeconds(SecondsOf(spent));
  Request();
}

void BackgroundPlanner::RequestFailures() {
  if (!options_.plan_ahead || !wiring_.has_time()) return;
  failures_.Request(kFailurePause, [this] { PlanFailures(); });
}

void BackgroundPlanner::PlanFailures() {
  if (wiring_.is_held()) return;
  const TimePoint start = loop_.Now();
  const bool has_planned = failure_plans_.RefreshNext();
  failures_.Took(loop_.Now() - start);
  if (!has_planned) return wiring_.request_turn();
  RequestFailures();
}

}  // namespace espalier::controller
