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

// The same for capacities that carry trees: a source puts `supply` into each rank, and what enters
// a rank and does not leave it returns to the source. So only switches, and ranks that more leaves
// than enters, lose capacity (ForestColl, Theorem 25: edge splitting needs balance, and the return
// gives it to the ranks). Trees leave a rank any number of times but enter it once, so ranks that
// more enters are usual.
// supply: by rank, the number of its trees.
void TrimForTrees(const Problem& problem, std::span<const std::int64_t> supply,
                  std::vector<std::int64_t>& capacity);

}  // namespace espalier::forest
