#pragma once

#include "collective/forest/model/problem.h"
#include "collective/forest/problem/boxes.h"
#include "collective/forest/trees/half_routes.h"
#include "collective/forest/trees/tree_table.h"

namespace espalier::forest {

// Changes where trees enter boxes (or racks), so that shallow trees can grow from there. Every link
// into a rank and into a box carries at most what it carried before.
//
// A tree that enters a rack over its leaf can do so at any rank of the rack, as the leaf's own
// links are used in either case. It then enters once, and the ranks of a rack take turns. If ranks
// have their own links to the fabric, two trees can exchange the ranks at which they enter. They do
// so if their roots then reach the switches (the rail) over which their trees enter.
// Complexity: O(trees * ranks).
void AlignEntries(const Problem& problem, const Boxes& boxes, const HalfRoutes& half_routes,
                  TreeTable& trees);

}  // namespace espalier::forest
