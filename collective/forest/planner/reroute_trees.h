#pragma once

#include "collective/forest/bound/tree_count.h"
#include "collective/forest/model/problem.h"
#include "collective/forest/planner/previous_trees.h"

namespace espalier::forest {

// Finds other paths for previous trees that have lost paths, so that their logical edges can stay.
// A dead spine breaks nearly every tree of a leaf-spine fabric, but all edges can use the other
// spines.
//
// Idea: whole trees take their capacity first. Each broken tree then gets, for every lost path, the
// shortest path over nodes other than ranks with room for all its units. Among shortest paths it
// takes the one whose narrowest arc has the most capacity left, which spreads the trees. Paths that
// ECMP would not take are excluded. If there is no room for all units of a tree, half of them are
// tried, then a quarter and so on, in at most 8 parts; units that find no path are dropped. The
// order is first come, first served: paths of whole trees and of trees rerouted earlier do not move
// again.
//
// On return previous.trees holds the whole trees and after them the rerouted ones, with `rerouted`
// set and their paths added to previous.routes. May be called again for another `count`.
// Complexity: lost paths * arcs between ranks and the switches around them.
void RerouteTrees(const Problem& problem, const TreeCount& count, PreviousTrees& previous);

}  // namespace espalier::forest
