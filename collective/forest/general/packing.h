#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "collective/forest/edge_splitting/split_graph.h"
#include "collective/forest/model/control.h"
#include "collective/forest/model/forest.h"
#include "common/base/result.h"

namespace espalier::forest {

// Trees in classes, without their routes; the members are those of Forest with the same names.
struct Packing {
  std::vector<TreeClass> classes;  // by root
  std::vector<Rank> parents;
};

// Builds spanning trees from the splits that removed all ranks but one, by putting the ranks back
// in reverse order.
//
// Idea: with one rank left there is one class of K trees, s -> last. To put v back, its splits are
// undone. If trees use more of (u, t) than remains, exactly the excess takes u -> v -> t instead. A
// tree with several such detours gets v once, below a u that descends from none of the detours, and
// the other detours hang under v. Every other tree takes any free arc into v: there are enough of
// them, as K units can enter v and each tree enters it once. Arcs from s count like the others, so
// the right number of trees begins at v. A class is divided only if a capacity ends within it.
//
// graph: as it was left after `removals`; on return as before them. need: K.
// Complexity: O(classes * ranks * degree) on contiguous rows; classes stay few (1 to 10 per root).
// Errors: kUnavailable when cancelled.
Result<Packing> PackTrees(SplitGraph& graph, std::span<const Removal> removals, std::int32_t last,
                          std::int64_t need, const Control& control);

}  // namespace espalier::forest
