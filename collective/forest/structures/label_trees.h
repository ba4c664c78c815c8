#pragma once

#include <optional>

#include "collective/forest/bound/optimality.h"
#include "collective/forest/model/control.h"
#include "collective/forest/model/forest.h"
#include "collective/forest/model/problem.h"
#include "common/base/result.h"

namespace espalier::forest {

// Shortest-path trees for networks without switches (tori, hypercubes, rings, meshes, other
// regular graphs): every tree has the least height that its root allows.
//
// Idea. Label every node x, for each root r, with its distance from r. If x takes any in-neighbour
// with a smaller label as its parent, the parents of r's tree form a tree, whatever the other
// nodes choose. So the packing falls apart into one small flow for each x: from the roots, with
// as many units as they have trees, over the allowed in-arcs of x, which take capacity[arc] units.
// On vertex-transitive graphs of abelian groups these flows exist at the optimum wherever trees of
// one root could be translated to the others; nothing has to be known about the group.
//
// Gives none where the way does not apply: a switch that carries something, a rank with more than
// 64 in-arcs, a rank where no such flow exists, more classes than kMaxParents holds.
// Errors: kUnavailable when cancelled.
// Complexity: O(N^2 * in-degree); memory 4 bytes times N^2 and the forest. 70 ms for a hypercube
// of 1,024 nodes (BM_LabelTrees).
inline constexpr std::size_t kMaxParents = std::size_t{1} << 29;
Result<std::optional<Forest>> BuildLabelTrees(const Problem& problem, const TreeCount& count,
                                              const Control& control = {});

}  // namespace espalier::forest
