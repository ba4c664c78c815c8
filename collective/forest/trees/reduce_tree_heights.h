#pragma once

#include <cstdint>

#include "collective/forest/bound/optimality.h"
#include "collective/forest/model/control.h"
#include "collective/forest/model/forest.h"
#include "collective/forest/model/problem.h"

namespace espalier::forest {

struct HeightOptions {
  std::int64_t steps = 20'000'000;  // places of trees looked at; about 20 ns each
};

// Reduces the heights of a forest's trees and keeps its throughput: the same roots and counts, and
// no arc carries more than its capacity in `count`.
//
// Local search. A rank that lies deep in a tree is hung below one that lies higher, over any way
// into it that has room; where a way is full, another tree's edge that uses it may be moved to
// make room, if that makes both together shallower (through a switch only the loads of the ports
// count, so any two senders of it can change places). Measured by the sum of 3^depth, so that the
// deepest ranks count most. The shallowest state met is kept. Deterministic.
//
// The least height is NP-complete to find in general (ForestColl, appendix B): nothing is proved
// about what comes out but that it is no higher than what went in. Problems with more than
// kMaxFeeders short ways between ranks (some 500 on one fabric) are left as they are.
// Gives the steps taken.
std::int64_t ReduceTreeHeights(const Problem& problem, const TreeCount& count,
                               const HeightOptions& options, Forest& forest,
                               const Control& control = {});

}  // namespace espalier::forest
