#pragma once

#include <cstdint>

#include "collective/forest/control.h"
#include "collective/forest/forest.h"
#include "collective/forest/optimality.h"
#include "collective/forest/problem.h"

namespace espalier::forest {

struct LowerTreesOptions {
  std::int64_t steps = 20'000'000;  // moves looked at
};

// Makes the trees of a forest lower without making any link carry more than it may (its capacity
// in `count`): the same roots and counts, other parents.
void LowerTrees(const Problem& problem, const TreeCount& count, const LowerTreesOptions& options,
                Forest& forest, const Control& control = {});

}  // namespace espalier::forest
