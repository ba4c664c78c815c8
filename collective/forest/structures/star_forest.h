#pragma once

#include <optional>

#include "collective/forest/bound/tree_count.h"
#include "collective/forest/model/forest.h"
#include "collective/forest/model/problem.h"

namespace espalier::forest {

// Builds a forest of stars: every root sends directly to all other ranks over one switch to which
// all of them are joined. Returns none if no switch is wide enough. O(arcs + ranks^2).
std::optional<Forest> BuildStar(const Problem& problem, const TreeCount& count);

}  // namespace espalier::forest
