#include "controller/placement/verify/spread_watch.h"

#include <fmt/format.h>

#include <algorithm>

namespace espalier::controller {

void SpreadWatch::Tick() {
  constexpr int kPartOfTime = 100;
  const TimePoint now = loop_.Now();
  if (now < next_) return;
  waiting_.Look(state_.flows, now);
  state_.notices.late_flows = waiting_.late();
  state_.notices.late_flow =
      waiting_.first_late() ? state_.FlowName(state_.flows.At(*waiting_.first_late())) : "";
  LookAtLoads(now);
  next_ = now + std::max(kInterval, kPartOfTime * (loop_.Now() - now));
}

void SpreadWatch::LookAtLoads(TimePoint now) {
  const bool was_poor = state_.notices.poor_spread.has_value();
  const LoadSummary loads = Summarize(state_);
  if (loads.max_load <= loads.lower_bound) {
    above_since_.reset();
    state_.notices.poor_spread.reset();
    next_trial_ = {};
    if (was_poor) state_.history.Record(now, "load_as_possible", "");
    return;
  }
  if (!above_since_) above_since_ = now;
  if (now - *above_since_ < kLasts || now < next_trial_) return;
  const Recomputation trial =
      placement_.what_if().Recompute(state_.intents.weights, /*dry_run=*/true);
  if (trial.after.max_load >= loads.max_load || trial.leads_astray) {
    state_.notices.poor_spread.reset();
    next_trial_ = now + kTrialInterval;
    if (was_poor) state_.history.Record(now, "load_as_possible", "");
    return;
  }
  state_.notices.poor_spread = {loads.max_load, trial.after.max_load};
  if (was_poor) return;
  state_.history.Record(
      now, "load_above_possible",
      fmt::format("max_load={} possible={} when={} remedy=\"espalier recompute\"",
                  loads.max_load.ToString(), trial.after.max_load.ToString(),
                  loads.are_phases_known ? "in_the_busiest_phases" : "all_open_flows_send"));
}

}  // namespace espalier::controller
