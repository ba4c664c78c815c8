#pragma once

#include <cstdint>

#include "collective/forest/bound/optimality.h"
#include "collective/forest/model/control.h"
#include "collective/forest/model/forest.h"
#include "collective/forest/model/problem.h"
#include "common/base/result.h"

namespace espalier::forest {

// A forest of the general construction whose trees are made shallow. For small problems (up to 64
// ranks) several forests are made, by removing the ranks in different orders, and their heights
// are reduced (ReduceTreeHeights), until one is shallow enough: at most half as high again as the
// greatest distance between two ranks. The shallowest is returned. For larger problems one forest
// is made and its trees grow again (RegrowTrees), or they grow from nothing where there are no
// switches (GrowTrees); up to 256 ranks ReduceTreeHeights continues from there where that is not
// shallow enough. Deterministic.
// height_steps: of ReduceTreeHeights, for all forests together; 0: trees as they were made.
// Errors: those of BuildGeneralForest.
Result<Forest> BuildShallowForest(const Problem& problem, const TreeCount& count,
                                  std::int64_t height_steps, const Control& control);

}  // namespace espalier::forest
