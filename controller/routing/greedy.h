#pragma once

#include <optional>
#include <span>
#include <vector>

#include "common/fabric/paths.h"
#include "controller/routing/link_loads.h"

namespace espalier::controller {

// The least congested usable path of P_uv: the one whose busiest link carries the fewest flows,
// the lowest index (spine) among equals. None where no path is usable.
std::optional<fabric::PathIndex> ChooseLeastLoaded(const fabric::Topology& topology,
                                                   std::span<const fabric::Path> paths,
                                                   const LinkLoads& loads);

// Greedy path assignment, Algorithm 1 of Routing for Large ML Models (section 3.4.1), over
// switch-to-switch links: takes the commodities in the caller's order and gives each the least
// congested path so far; `loads` holds the flows that keep their paths, and afterwards all.
//
// commodities[i]: the candidate paths P_uv of commodity i (common/fabric PathTable).
// Guarantee: on a full 2-layer Clos with equal links and no loads before, the busiest link
// carries at most twice the optimum (Theorem 2, section 4). Deterministic.
// Complexity: O(total candidate hops).
std::vector<std::optional<fabric::PathIndex>> AssignGreedy(
    const fabric::Topology& topology, std::span<const std::span<const fabric::Path>> commodities,
    LinkLoads& loads);

}  // namespace espalier::controller
