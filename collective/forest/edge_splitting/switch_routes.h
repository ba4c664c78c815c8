#pragma once

#include <span>

#include "collective/forest/bound/tree_count.h"
#include "collective/forest/edge_splitting/split_graph.h"
#include "collective/forest/model/forest.h"
#include "collective/forest/model/problem.h"

namespace espalier::forest {

// Resolves the recursion of the paper's table `routing`: from the splits that removed all switches,
// computes the physical routes of every remaining arc between ranks. Routes that ECMP can take come
// first, so that the others are used last.
// Complexity: O(splits * segments), a few milliseconds for 1,024 ranks.
RoutingTable ResolveRoutes(const Problem& problem, const TreeCount& count,
                           std::span<const Removal> switches);

}  // namespace espalier::forest
