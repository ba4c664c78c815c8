#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "collective/forest/model/problem.h"

namespace espalier::forest {

// Whether trees_per_weight * weight[r] out-trees rooted at every rank r fit into these capacities
// (one an arc of the problem, 0 allowed): the flow from the source to every rank is large enough
// (Theorem 25; capacities have to be balanced for the "if"). The products trees_per_weight *
// weight and the sums of capacities must fit into 62 bits.
// Complexity: one flow a rank, nearly all of them over a few arcs; 1,154 switches and 1,024 ranks
// take a few milliseconds.
bool SupportsTrees(const Problem& problem, std::span<const std::int64_t> capacity,
                   std::int64_t trees_per_weight);

// The same, with the reason: the nodes on the sink side of a cut that is too small, or none.
std::vector<std::int32_t> FindNarrowCut(const Problem& problem,
                                        std::span<const std::int64_t> capacity,
                                        std::int64_t trees_per_weight);

// All ranks in the order of a breadth-first search, so that one whose flow is tested has
// neighbours that were tested, and contracted into the source, before it.
std::vector<std::int32_t> NeighbourOrder(const Problem& problem);

}  // namespace espalier::forest
