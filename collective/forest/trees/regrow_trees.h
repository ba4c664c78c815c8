#pragma once

#include <optional>

#include "collective/forest/bound/tree_count.h"
#include "collective/forest/model/control.h"
#include "collective/forest/model/forest.h"
#include "collective/forest/model/problem.h"

namespace espalier::forest {

// Makes the trees of a large forest shallower and keeps its throughput: the roots and counts stay,
// and no arc carries more than its capacity in `count`.
//
// Idea: every edge of a tree passes one hub, the highest switch of its route (the receiver itself
// on a direct link), and any rank that reaches the hub can be the sender. So only the half routes
// from the hubs down to the receivers are kept from the forest: they say how often and where each
// tree enters each part of the network, and they fit. All trees then grow again from their roots,
// one level at a time. The ranks reached in the last level send to every rank that waits at a hub
// that they reach, as long as their own half routes have room. So roots serve their own trees
// first, and chains become stars as far as the links allow. The few edges for which no sender has
// room in the end take it from edges of other trees that other senders can serve.
//
// Returns whether that worked and the trees are shallower. The forest stays unchanged if not, if
// ranks have more half routes than HalfRoutes holds, and when cancelled. Deterministic.
// Complexity: O(trees * ranks * (levels + half routes)) on contiguous rows; 0.1 s for 1,024 ranks
// (forest_bench --general).
// Memory: 6 bytes per edge.
bool RegrowTrees(const Problem& problem, const TreeCount& count, Forest& forest,
                 const Control& control = {});

// As above for networks without switches, where no entries need to be known: grows a forest from
// nothing. Returns none if growth gets stuck, if there are switches or more half routes than
// HalfRoutes holds, and when cancelled.
std::optional<Forest> GrowTrees(const Problem& problem, const TreeCount& count,
                                const Control& control = {});

}  // namespace espalier::forest
