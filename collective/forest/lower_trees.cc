#include "collective/forest/lower_trees.h"

namespace espalier::forest {

void LowerTrees(const Problem& /*problem*/, const TreeCount& /*count*/,
                const LowerTreesOptions& /*options*/, Forest& /*forest*/,
                const Control& /*control*/) {}

}  // namespace espalier::forest
