#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "collective/forest/model/problem.h"

namespace espalier::forest {

// Lowers capacities (one per arc; may be 0) until as much enters every node as leaves it. Always
// possible, as 0 everywhere is balanced.
//
// Idea: from each node with excess outgoing capacity, remove the shortest path to a node with
// excess incoming capacity, as an augmenting path of a flow: capacity that an earlier path removed
// can be given back on the way. So each unit of surplus costs at most one path. Little is removed
// in total, but not always the minimum, which would take a minimum-cost flow.
// Deterministic.
// Complexity: O(unbalanced nodes * arcs) on usual fabrics.
void TrimToCirculation(std::int32_t node_count, std::span<const Arc> arcs,
                       std::vector<std::int64_t>& capacity);

}  // namespace espalier::forest
