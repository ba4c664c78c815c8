#pragma once

#include "collective/forest/bound/optimality.h"
#include "collective/forest/control.h"
#include "collective/forest/forest.h"
#include "collective/forest/problem.h"
#include "common/base/result.h"

namespace espalier::forest {

struct GeneralOptions {
  // Complete pairings guessed, exact gammas and flows may take this many steps (arcs looked at)
  // in all before the work is given up.
  std::int64_t step_budget = std::int64_t{1} << 42;
  // Ranks are removed in their order from this one on and once round: another forest each.
  std::int32_t first_rank = 0;
};

// The general exact way: a forest of exactly `count` trees for any balanced problem.
// Switches, and then all ranks but one, are removed by complete edge splitting (Theorems 26 to
// 28); the single rank left has one class of trees, and putting the ranks back in reverse order
// makes the forest grow. Raw heights: low trees are another step's work.
// Errors: kUnavailable when cancelled; kResourceExhausted when the step budget is used up or
// products are past 63 bits.
Result<Forest> BuildGeneralForest(const Problem& problem, const TreeCount& count,
                                  const GeneralOptions& options = {}, const Control& control = {});

}  // namespace espalier::forest
