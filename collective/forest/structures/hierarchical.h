#pragma once

#include <cstdint>
#include <optional>

#include "collective/forest/bound/optimality.h"
#include "collective/forest/model/control.h"
#include "collective/forest/model/forest.h"
#include "collective/forest/model/problem.h"
#include "common/base/result.h"

namespace espalier::forest {

// Forests for boxes joined by a fabric: every tree goes straight from its root's box to each other
// box, enters it once, and spreads inside. Low: two edges for boxes with a wide inner switch.
//
// Boxes are found by FindBoxes; ways between them by AssignTransfers; what is left of the links is
// for the forests inside the boxes (BoxForests). All loads are counted, so what comes out is
// within `count`; where a box can't take all trees in or spread them, another TransferOrder and
// then the next division is tried. Gives none where no division works: then another way has to.
// Errors: kUnavailable when cancelled; those of BuildGeneralForest.
// Complexity: O(N * (N + boxes)) and the forests of boxes that differ; 15 ms for 1,024 A100 GPUs
// (BM_Hierarchical).
Result<std::optional<Forest>> BuildHierarchical(const Problem& problem, const TreeCount& count,
                                                std::int64_t height_steps,
                                                const Control& control = {});

}  // namespace espalier::forest
