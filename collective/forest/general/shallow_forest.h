#pragma once

#include <cstdint>

#include "collective/forest/bound/tree_count.h"
#include "collective/forest/model/control.h"
#include "collective/forest/model/forest.h"
#include "collective/forest/model/problem.h"
#include "common/base/result.h"

namespace espalier::forest {

// Builds a forest of the general construction and makes its trees shallow.
//
// For small problems (up to 64 ranks) it makes several forests, by removing the ranks in different
// orders, and reduces their heights (ReduceTreeHeights) until one is shallow enough: its height is
// at most 1.5 times the greatest distance between two ranks. It returns the shallowest. For larger
// problems it makes one forest and regrows its trees (RegrowTrees), or grows them from nothing if
// there are no switches (GrowTrees). Up to 256 ranks, ReduceTreeHeights continues if the result is
// not shallow enough.
// Deterministic.
// height_steps: the limit of ReduceTreeHeights, for all forests together; 0: heights are not
// reduced.
// Errors: those of BuildGeneralForest.
Result<Forest> BuildShallowForest(const Problem& problem, const TreeCount& count,
                                  std::int64_t height_steps, const Control& control);

}  // namespace espalier::forest
