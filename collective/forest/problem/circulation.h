#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "collective/forest/model/problem.h"

namespace espalier::forest {

// Lowers capacities (one an arc; may be 0) until as much enters every node as leaves it, taking
// away as little in all as is possible by removing shortest paths from nodes with too much
// leaving to nodes with too much entering. Always possible: 0 everywhere is balanced.
// Deterministic. Complexity: O(unbalanced nodes * arcs) on usual fabrics.
void TrimToCirculation(std::int32_t node_count, std::span<const Arc> arcs,
                       std::vector<std::int64_t>& capacity);

}  // namespace espalier::forest
