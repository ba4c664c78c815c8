#pragma once

#include <optional>

#include "collective/forest/bound/optimality.h"
#include "collective/forest/model/control.h"
#include "collective/forest/model/forest.h"
#include "collective/forest/model/problem.h"

namespace espalier::forest {

// Makes the trees of a large forest shallower and keeps its throughput: the same roots and counts,
// and no arc carries more than its capacity in `count`.
//
// Idea. Every edge of a tree passes one hub, the highest switch of its way (the receiver itself on
// a direct link), and any rank that reaches the hub can be the sender. So of the forest only the
// ways from the hubs down to the receivers are kept: these say how often, and where, each tree
// enters each part of the network, and they fit. All trees grow again from their roots, one level
// at a time: whoever was reached in the last level sends to every rank that waits at a hub which
// it reaches, while its own ways have room. So roots serve their own trees first, and chains turn
// into stars as far as the links allow it. The few edges for which nobody has room in the end take
// it from edges of other trees that others can serve.
//
// Gives whether that worked and the trees are shallower; the forest is as it was where not, where
// ranks have more ways than SenderPorts holds, and when cancelled. Deterministic.
// Complexity: O(trees * ranks * (levels + ports)) on contiguous rows; 0.1 s for 1,024 ranks
// (forest_bench --general). Memory: 6 bytes an edge.
bool RegrowTrees(const Problem& problem, const TreeCount& count, Forest& forest,
                 const Control& control = {});

// The same where there are no switches, so that nothing has to be known of where trees enter: grows
// a forest from nothing. None where growth gets stuck, where there are switches or more ways than
// SenderPorts holds, and when cancelled.
std::optional<Forest> GrowTrees(const Problem& problem, const TreeCount& count,
                                const Control& control = {});

}  // namespace espalier::forest
