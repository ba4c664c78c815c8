#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "collective/forest/flow/flow_graph.h"
#include "collective/forest/model/problem.h"

namespace espalier::forest {

// Returns all nodes other than ranks, in the order in which edge splitting removes them: by tier;
// within a tier, those of hosts before those of the fabric, and small ones before large ones. A
// group holds switches of similar degree, whose pairings are guessed on the same components.
// Otherwise a rail that was removed earlier would join the boxes, and a dead link would set a rail
// apart.
std::vector<std::vector<std::int32_t>> GroupSwitches(const Problem& problem);

// Computes the connected components of the ranks over arcs between ranks in either direction.
// Returns for each rank the lowest rank of its component.
std::vector<std::int32_t> ComputeComponents(const FlowGraph& graph, std::int32_t rank_count);

// Returns the ranks box by box (boxes by their lowest rank, ranks ascending): the order of their
// removal.
std::vector<std::int32_t> OrderByBox(std::span<const std::int32_t> box);

}  // namespace espalier::forest
