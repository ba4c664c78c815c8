#pragma once

#include <cstdint>

#include "collective/forest/bound/optimality.h"
#include "collective/forest/control.h"
#include "collective/forest/forest.h"
#include "collective/forest/problem.h"
#include "common/base/result.h"

namespace espalier::forest {

// A forest of the general way, made lower. Of small problems (up to 64 ranks) several are made, by
// removing the ranks in other orders, until one is low enough: half as high again as the greatest
// distance between two ranks; the lowest is given (LowerTrees). Of larger ones one is made and its
// trees grow again (RegrowTrees), or grow from nothing where there are no switches (GrowTrees); up
// to 256 ranks LowerTrees goes on from there where that is not low enough. Deterministic.
// height_steps: of LowerTrees, for all forests together; 0: raw trees.
// Errors: those of BuildGeneralForest.
Result<Forest> BuildLowForest(const Problem& problem, const TreeCount& count,
                              std::int64_t height_steps, const Control& control);

}  // namespace espalier::forest
