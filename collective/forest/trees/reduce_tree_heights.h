#pragma once

#include <cstdint>

#include "collective/forest/bound/tree_count.h"
#include "collective/forest/model/control.h"
#include "collective/forest/model/forest.h"
#include "collective/forest/model/problem.h"

namespace espalier::forest {

struct HeightOptions {
  std::int64_t steps = 20'000'000;  // tree positions visited; about 20 ns each
};

// Reduces the heights of a forest's trees and keeps its throughput: the roots and counts stay, and
// no arc carries more than its capacity in `count`.
//
// Idea: local search. A rank that lies deep in a tree is hung below one nearer to the root, over
// any route into it that has room. If a route is full, another tree's edge on it may move to make
// room, provided that both changes together make the trees shallower. (Through a switch only the
// loads of the half routes count, so any two senders of the switch can exchange.) The measure is
// the sum of 3^depth, so that the deepest ranks count most. The shallowest state found is kept.
// Deterministic.
//
// Minimum height is NP-complete in general (ForestColl, appendix B), so nothing is proved about the
// result except that it is no higher than the input. Problems with more than kMaxFeeders short
// routes between ranks (about 500 ranks on one fabric) stay unchanged. Returns the number of steps
// taken.
std::int64_t ReduceTreeHeights(const Problem& problem, const TreeCount& count,
                               const HeightOptions& options, Forest& forest,
                               const Control& control = {});

}  // namespace espalier::forest
