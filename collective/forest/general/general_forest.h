#pragma once

#include "collective/forest/bound/tree_count.h"
#include "collective/forest/edge_splitting/elimination.h"
#include "collective/forest/model/control.h"
#include "collective/forest/model/forest.h"
#include "collective/forest/model/problem.h"
#include "common/base/result.h"

namespace espalier::forest {

// The general exact construction: builds a forest of exactly `count` trees for any balanced
// problem. Complete edge splitting removes the switches and then all ranks but one (ForestColl,
// Theorems 26 to 28). The remaining rank has one class of trees, and the forest grows as the ranks
// are put back in reverse order. The trees may be high; BuildShallowForest makes shallow ones.
// Errors: kUnavailable when cancelled; kResourceExhausted if the step budget is used up or products
// exceed 63 bits.
Result<Forest> BuildGeneralForest(const Problem& problem, const TreeCount& count,
                                  const EliminationOptions& options = {},
                                  const Control& control = {});

}  // namespace espalier::forest
