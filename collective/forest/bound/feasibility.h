#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "collective/forest/model/problem.h"

namespace espalier::forest {

// Returns whether trees_per_weight * weight[r] out-trees rooted at every rank r fit into these
// capacities (one per arc of the problem, 0 allowed). They do if and only if the flow from the
// source to every rank is large enough (ForestColl, Theorem 25); the "if" needs balanced
// capacities. The products trees_per_weight * weight and the sums of capacities must fit into 62
// bits.
// Complexity: one flow per rank, nearly all of them over a few arcs; 1,154 switches and 1,024 ranks
// take a few milliseconds.
bool SupportsTrees(const Problem& problem, std::span<const std::int64_t> capacity,
                   std::int64_t trees_per_weight);

// As SupportsTrees, but returns the nodes on the sink side of a cut that is too small, or nothing.
std::vector<std::int32_t> FindNarrowCut(const Problem& problem,
                                        std::span<const std::int64_t> capacity,
                                        std::int64_t trees_per_weight);

// Returns all ranks in breadth-first order. A rank whose flow is tested then has neighbours that
// were tested, and contracted into the source, before it.
std::vector<std::int32_t> NeighbourOrder(const Problem& problem);

}  // namespace espalier::forest
