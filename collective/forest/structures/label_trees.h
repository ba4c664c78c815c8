#pragma once

#include <optional>

#include "collective/forest/bound/tree_count.h"
#include "collective/forest/model/control.h"
#include "collective/forest/model/forest.h"
#include "collective/forest/model/problem.h"
#include "common/base/result.h"

namespace espalier::forest {

// Builds shortest-path trees for networks without switches (tori, hypercubes, rings, meshes, other
// regular graphs): every tree has the least height that its root allows.
//
// Idea: label every node x, for each root r, with its distance from r. If every node takes some
// in-neighbour with a smaller label as its parent, the parents form a tree of r, whatever the other
// nodes choose. So the packing decomposes into one small flow for each x: from the roots, with as
// many units as they have trees, over the allowed in-arcs of x, each with capacity[arc] units. On
// vertex-transitive graphs of abelian groups these flows exist at the optimum whenever translated
// copies of one root's trees would form an optimal packing; the algorithm needs no knowledge of the
// group.
//
// Returns none if the construction does not apply: a switch that carries traffic, a rank with more
// than 64 in-arcs, a rank without such a flow, or more than kMaxParents parents.
// Errors: kUnavailable when cancelled.
// Complexity: O(N^2 * in-degree); memory 4 bytes times N^2 and the forest. 70 ms for a hypercube of
// 1,024 nodes (BM_LabelTrees).
inline constexpr std::size_t kMaxParents = std::size_t{1} << 29;
Result<std::optional<Forest>> BuildLabelTrees(const Problem& problem, const TreeCount& count,
                                              const Control& control = {});

}  // namespace espalier::forest
