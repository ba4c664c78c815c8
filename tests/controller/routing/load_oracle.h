#pragma once

#include <cstddef>
#include <vector>

#include "tests/controller/routing/test_fabric.h"

namespace espalier::controller {

// Independent of the assigners: paths are the topology's own, by its own link states.

// The usable paths between two leaves, as links (DirectedLink::Index).
std::vector<std::vector<std::size_t>> UsablePaths(Fabric& fabric, const Commodity& flow);

// The least maximum load if flows could be divided arbitrarily over all their paths: a linear
// program, solved by cbc. Flows without usable paths do not count; 0 if there are no others.
double FractionalBound(Fabric& fabric, const Commodities& flows);

// The least maximum load of indivisible subflows, by brute force.
Load BruteForce(Fabric& fabric, const Commodities& flows);

// Checks that each routable flow is on usable paths, that all others have none, and that the
// maximum load is that of these paths and not below the lower bound.
void ExpectValid(Fabric& fabric, const Commodities& flows, const Assignment& assignment);

}  // namespace espalier::controller
