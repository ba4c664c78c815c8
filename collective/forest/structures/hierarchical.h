#pragma once

#include <cstdint>
#include <optional>

#include "collective/forest/bound/tree_count.h"
#include "collective/forest/model/control.h"
#include "collective/forest/model/forest.h"
#include "collective/forest/model/problem.h"
#include "common/base/result.h"

namespace espalier::forest {

// Builds forests for boxes joined by a fabric: every tree goes directly from its root's box to each
// other box, enters it once and spreads inside. The trees are shallow: two edges high for boxes
// with a wide inner switch.
//
// FindBoxes finds the boxes, AssignTransfers routes the trees between them, and BoxForests builds
// the forests inside boxes on the remaining capacity. All loads are counted, so the result is
// within `count`. If a box can't take all trees in or spread them, another TransferOrder and then
// the next division is tried. Returns none if no division works; the caller then uses another
// construction.
// Errors: kUnavailable when cancelled; those of BuildGeneralForest.
// Complexity: O(N * (N + boxes)) and the forests of distinct boxes; 15 ms for 1,024 A100 GPUs
// (BM_Hierarchical).
Result<std::optional<Forest>> BuildHierarchical(const Problem& problem, const TreeCount& count,
                                                std::int64_t height_steps,
                                                const Control& control = {});

}  // namespace espalier::forest
