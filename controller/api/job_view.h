#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "controller/state.h"

namespace espalier::controller {

// Every job that has flows, or had a round in the last ten minutes: its flows, what they achieve,
// and how long its rounds (All-Reduces) took against the ideal (docs/operating.md). O(flows).
std::string JobsView(State& state, TimePoint now);
// The same, with State::CountPaths at hand; rates that differ by less than an eighth read the same,
// and nothing counts the seconds.
std::string LiveJobs(State& state, TimePoint now, const std::vector<std::int64_t>& paths);

}  // namespace espalier::controller
