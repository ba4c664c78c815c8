#pragma once

#include <string>

#include "controller/api/flow_census.h"
#include "controller/state.h"

namespace espalier::controller {

// Every job that has flows, or had a round in the last ten minutes: its flows, what they achieve,
// and how long its rounds (All-Reduces) took against the ideal (docs/operating.md). O(flows).
std::string JobsView(State& state, TimePoint now);
// The same of flows that are counted; rates that differ by less than an eighth read the same, and
// nothing counts the seconds.
std::string LiveJobs(const State& state, TimePoint now, const FlowCensus& census);

}  // namespace espalier::controller
