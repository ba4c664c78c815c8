#pragma once

#include <cstdint>

#include "collective/forest/bound/optimality.h"
#include "collective/forest/control.h"
#include "collective/forest/forest.h"
#include "collective/forest/problem.h"

namespace espalier::forest {

struct LowerTreesOptions {
  std::int64_t steps = 20'000'000;  // places of trees looked at; about 20 ns each
};

// Makes the trees of a forest lower and keeps its throughput: the same roots and counts, and no
// arc carries more than its capacity in `count`.
//
// Local search. A rank that lies deep in a tree is hung below one that lies higher, over any way
// into it that has room; where a way is full, another tree's edge that uses it may be moved to
// make room, if both together are lower (through a switch only the loads of the ports count, so
// any two senders of it can change places). Measured by the sum of 3^depth, so that the deepest
// ranks count most. The lowest state met is kept. Deterministic.
//
// The least height is NP-complete to find in general (ForestColl, appendix B): nothing is proved
// about what comes out but that it is no higher than what went in. Problems with more than
// kMaxFeeders short ways between ranks (some 500 on one fabric) are left as they are.
// Gives the steps taken.
std::int64_t LowerTrees(const Problem& problem, const TreeCount& count,
                        const LowerTreesOptions& options, Forest& forest,
                        const Control& control = {});

}  // namespace espalier::forest
