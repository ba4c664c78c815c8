#pragma once

#include "collective/forest/bound/optimality.h"
#include "collective/forest/edge_splitting/elimination.h"
#include "collective/forest/model/control.h"
#include "collective/forest/model/forest.h"
#include "collective/forest/model/problem.h"
#include "common/base/result.h"

namespace espalier::forest {

// The general exact construction: a forest of exactly `count` trees for any balanced problem.
// Switches, and then all ranks but one, are removed by complete edge splitting (Theorems 26 to
// 28); the single rank left has one class of trees, and putting the ranks back in reverse order
// makes the forest grow. The trees may be high: BuildShallowForest makes shallow ones.
// Errors: kUnavailable when cancelled; kResourceExhausted when the step budget is used up or
// products are past 63 bits.
Result<Forest> BuildGeneralForest(const Problem& problem, const TreeCount& count,
                                  const EliminationOptions& options = {},
                                  const Control& control = {});

}  // namespace espalier::forest
