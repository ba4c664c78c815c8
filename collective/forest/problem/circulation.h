#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "collective/forest/model/problem.h"

namespace espalier::forest {

// Lowers capacities (one an arc; may be 0) until as much enters every node as leaves it. Always
// possible: 0 everywhere is balanced.
//
// Idea. From each node with too much leaving, the shortest path to a node with too much entering
// is taken away, as one of a flow: what an earlier path took can be given back on the way. So each
// unit of surplus costs a path at most. Little is taken away in all, but not always the least,
// which would be a flow of minimum cost.
// Deterministic. Complexity: O(unbalanced nodes * arcs) on usual fabrics.
void TrimToCirculation(std::int32_t node_count, std::span<const Arc> arcs,
                       std::vector<std::int64_t>& capacity);

}  // namespace espalier::forest
