#pragma once

#include "collective/forest/model/problem.h"
#include "collective/forest/problem/boxes.h"
#include "collective/forest/trees/port_trees.h"
#include "collective/forest/trees/sender_ports.h"

namespace espalier::forest {

// Changes where trees enter boxes (or racks), so that shallow trees can grow from there; every link
// into a rank and into a box carries at most what it carried.
//
// A tree that enters a rack over its leaf can do so at any rank there, as the leaf's own links are
// used in either case: it enters once, and the ranks of a rack take turns. Where ranks have links
// to the fabric of their own, two trees can change the ranks that they enter at: they do where
// roots then reach the switches (the rail) that their trees come in over.
// Complexity: O(trees * ranks).
void AlignEntries(const Problem& problem, const Boxes& boxes, const SenderPorts& ports,
                  PortTrees& trees);

}  // namespace espalier::forest
