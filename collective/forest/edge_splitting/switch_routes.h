#pragma once

#include <span>

#include "collective/forest/bound/optimality.h"
#include "collective/forest/edge_splitting/split_graph.h"
#include "collective/forest/model/forest.h"
#include "collective/forest/model/problem.h"

namespace espalier::forest {

// The paper's table `routing` with its recursion resolved: from the splits that removed all
// switches, the physical routes of every arc between ranks that is left. Routes that ECMP can
// take come first, so that those it cannot are used last.
// Complexity: O(splits * segments), a few milliseconds for 1,024 ranks.
RoutingTable ResolveRoutes(const Problem& problem, const TreeCount& count,
                           std::span<const Removal> switches);

}  // namespace espalier::forest
