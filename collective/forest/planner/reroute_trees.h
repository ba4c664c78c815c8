#pragma once

#include "collective/forest/bound/optimality.h"
#include "collective/forest/model/problem.h"
#include "collective/forest/planner/previous_trees.h"

namespace espalier::forest {

// Finds other paths for previous trees that have lost paths, so that their logical edges can stay:
// a dead spine breaks nearly every tree of a leaf-spine fabric, and all its edges still have the
// other spines.
//
// The trees that are whole take what they need of the capacities first. Each broken tree then gets
// for every lost path the shortest one with room for all its units, over nodes that are no ranks;
// among shortest paths the one whose narrowest arc has most left, which spreads the trees. Paths
// that ECMP would not take are no paths. Where there is no room for all units of a tree, a part of
// them is tried, halved each time, in at most 8 parts; what finds no way is left out. First come,
// first served: the paths of trees that are whole, or rerouted before, are not moved again.
//
// On return previous.trees are the whole trees and behind them the rerouted ones, with their
// `rerouted` set and paths added to previous.routes. May be called again, for another `count`.
// Complexity: lost paths * the arcs between ranks and switches around them.
void RerouteTrees(const Problem& problem, const TreeCount& count, PreviousTrees& previous);

}  // namespace espalier::forest
