#pragma once

#include <cstdint>
#include <string>

#include "controller/api/flow_statistics.h"
#include "controller/state/state.h"

namespace espalier::controller {

// True for a job (FlowTable::JobName) that has flows, or had a round in the last ten minutes.
bool ShowsJob(const State& state, TimePoint now, std::uint32_t job,
              const FlowStatistics& statistics);
// Such a job: its flows, what they achieve, and how long its rounds (All-Reduces) took against the
// ideal (docs/operating.md).
std::string JobView(const State& state, TimePoint now, std::uint32_t job,
                    const FlowStatistics& statistics);
// All such jobs, for pages that look at them as they change; rates that differ by less than an
// eighth read the same, and nothing counts the seconds.
std::string LiveJobs(const State& state, TimePoint now, const FlowStatistics& statistics);

}  // namespace espalier::controller
