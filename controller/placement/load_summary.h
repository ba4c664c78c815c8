#pragma once

#include <span>
#include <vector>

#include "controller/routing/assignment.h"
#include "controller/state/state.h"

namespace espalier::controller {

// Flows between leaves as assigners see them. Commodity i describes the flow slots[i].
struct Elephants {
  std::vector<FlowSlot> slots;
  std::vector<Commodity> commodities;
};
// Describes those of these flows that cross the fabric, in the same order. O(flows).
Elephants DescribeElephants(const State& state, std::span<const FlowSlot> slots);
// Their present paths and maximum load; lower_bound is not set.
Assignment CurrentPaths(const State& state, const Elephants& elephants);

// How well flows are spread over the links.
struct LoadSummary {
  Load max_load;     // of the most loaded direction of a link between switches
  Load lower_bound;  // no assignment of these flows has a smaller maximum load

  bool IsOptimal() const { return max_load <= lower_bound; }
};
// Summarises all flows that have paths. O(flows + links): for views and operators, not to be called
// for every arrival.
LoadSummary Summarize(const State& state);

}  // namespace espalier::controller
