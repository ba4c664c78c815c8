#pragma once

#include <span>
#include <vector>

#include "controller/routing/assignment.h"
#include "controller/state/state.h"

namespace espalier::controller {

// Flows between leaves as assigners see them: commodity i is the flow slots[i].
struct Elephants {
  std::vector<FlowSlot> slots;
  std::vector<Commodity> commodities;
};
// Of these flows, those that cross the fabric; the order is kept. O(flows).
Elephants DescribeElephants(const State& state, std::span<const FlowSlot> slots);
// The paths that they have now, with their maximum load; lower_bound is left alone.
Assignment CurrentPaths(const State& state, const Elephants& elephants);

// How well the flows that have paths are spread.
struct LoadSummary {
  Load max_load;     // of the most loaded switch-to-switch direction, flows a unit link
  Load lower_bound;  // no assignment of these flows has less

  bool IsOptimal() const { return max_load <= lower_bound; }
};
// Of all flows as they are now. O(flows + links): for views and operators, not for every flow.
LoadSummary Summarize(const State& state);

}  // namespace espalier::controller
