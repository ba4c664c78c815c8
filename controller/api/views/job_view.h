#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "controller/api/views/flow_statistics.h"
#include "controller/state/state.h"

namespace espalier::controller {

// Whether a job (FlowTable::JobName) has flows, or had a round in the last ten minutes.
bool ShowsJob(const State& state, TimePoint now, std::uint32_t job,
              const FlowStatistics& statistics);
// The mean duration of its latest rounds and of their ideals, in seconds; zeros without rounds.
std::pair<double, double> MedianRound(const State& state, std::uint32_t job, TimePoint now);
// Such a job as JSON: its flows, their rates, and the times of its rounds (all-reduces) beside the
// ideal time (docs/operating.md).
std::string JobView(const State& state, TimePoint now, std::uint32_t job,
                    const FlowStatistics& statistics);
// All such jobs as JSON for the live feed. Rates are coarse, so that changes below an eighth do not
// show, and no field changes with time alone.
std::string LiveJobs(const State& state, TimePoint now, const FlowStatistics& statistics);

}  // namespace espalier::controller
