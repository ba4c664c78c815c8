#pragma once

#include <optional>

#include "collective/forest/bound/optimality.h"
#include "collective/forest/model/forest.h"
#include "collective/forest/model/problem.h"

namespace espalier::forest {

// Every root sends straight to all other ranks over one switch that all of them are joined to.
// None where no switch is wide enough for that. O(arcs + ranks^2).
std::optional<Forest> BuildStar(const Problem& problem, const TreeCount& count);

}  // namespace espalier::forest
