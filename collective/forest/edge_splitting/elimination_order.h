#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "collective/forest/flow/flow_graph.h"
#include "collective/forest/model/problem.h"

namespace espalier::forest {

// Switches (all that is no rank), in the order in which edge splitting removes them: by tier, and
// within a tier those of hosts before those of the fabric and small ones before large ones. Those
// of one group (much the same degree) are guessed on the same components: a rail that was removed
// before another would join the boxes, and a dead link must not set a rail apart.
std::vector<std::vector<std::int32_t>> GroupSwitches(const Problem& problem);

// Connected components of the ranks by arcs between ranks, either way: by rank, the lowest rank
// of its component.
std::vector<std::int32_t> ComputeComponents(const FlowGraph& graph, std::int32_t rank_count);

// Ranks box by box (boxes by their lowest rank, ranks ascending): the order of their removal.
std::vector<std::int32_t> OrderByBox(std::span<const std::int32_t> box);

}  // namespace espalier::forest
