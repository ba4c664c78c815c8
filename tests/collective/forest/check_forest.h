#pragma once

#include <string>

#include "collective/forest/bound/tree_count.h"
#include "collective/forest/model/forest.h"
#include "collective/forest/model/problem.h"

namespace espalier::forest {

// Returns what is wrong with a forest, by the definition alone; empty if nothing is: every class
// spans all ranks from its root, every rank r has k * weight[r] trees, routes lead from parent to
// child, and no arc carries more trees than U * b.
std::string FindFault(const Problem& problem, const TreeCount& count, const Forest& forest);

}  // namespace espalier::forest
