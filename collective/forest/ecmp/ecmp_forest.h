#pragma once

#include <cstdint>

#include "collective/forest/model/control.h"
#include "collective/forest/model/forest.h"
#include "collective/forest/model/problem.h"
#include "common/base/result.h"
#include "common/fabric/topology.h"

namespace espalier::forest {

struct EcmpForestOptions {
  std::int64_t trees_per_weight = 1;  // k, >= 1
  bool reversed = false;              // the problem is a transposed one
};

// A forest of edges that switches really take, at one NIC a rank (EcmpRoutes): for fabrics whose
// best forest has others, as after failures that leave two leaves with no spine in common. There is
// one wherever each root reaches every rank over ranks that can send to each other.
//
// How: trees are packed one by one, each grown from its root like Prim's, by the edge whose way
// costs least. An arc costs the rise of the sum of (load / capacity)^8 over all arcs, which stands
// for the greatest load / capacity, and a way is dearer by a little the deeper it begins. Then, for
// some rounds, every tree is taken out and grown again; the best forest met is kept. A good packing
// and not the best one: the tests find 3/4 of the bound of all schedules, most often all of it.
// scale and inverse_rate are those of the loads, exactly. Deterministic.
//
// Errors: kFailedPrecondition with a root and a rank that cannot be reached from it; kUnavailable
// when cancelled. Complexity: trees * ranks * (ranks + looks at ways again, few a rank) a round.
Result<Forest> BuildEcmpForest(const fabric::Topology& topology, const Problem& problem,
                               const EcmpForestOptions& options, const Control& control = {});

}  // namespace espalier::forest
