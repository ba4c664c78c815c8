#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "controller/api/flow_census.h"
#include "controller/state.h"

namespace espalier::controller {

// Every job that has flows, or had a round in the last ten minutes, by FlowTable::JobName.
std::vector<std::uint32_t> JobsToShow(const State& state, TimePoint now, const FlowCensus& census);
// One of them: its flows, what they achieve, and how long its rounds (All-Reduces) took against the
// ideal (docs/operating.md).
std::string JobView(const State& state, TimePoint now, std::uint32_t job, const FlowCensus& census);
// All of them, for pages that look at them as they change; rates that differ by less than an eighth
// read the same, and nothing counts the seconds.
std::string LiveJobs(const State& state, TimePoint now, const FlowCensus& census);

}  // namespace espalier::controller
