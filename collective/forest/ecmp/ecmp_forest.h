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

// Builds a forest whose edges all take paths that ECMP switches really use, with one NIC per rank
// (EcmpRoutes). It serves fabrics whose best forest needs other paths, for example after failures
// that leave two leaves without a common spine. A forest exists if each root reaches every rank
// over ranks that can send to each other.
//
// Idea: pack the trees one by one, each grown from its root like Prim's, always by the edge with
// the cheapest route. The cost of an arc is the increase of the sum of (load / capacity)^8 over all
// arcs, which approximates the maximum load / capacity. A route that starts deeper in the tree
// costs slightly more. In several rounds, every tree is then removed and grown again, and the best
// forest found is kept. The result is good but not optimal: the tests find at least 3/4 of the
// bound of all schedules, most often all of it. `scale` and `inverse_rate` are the exact ones of
// the loads. Deterministic.
//
// Errors: kFailedPrecondition with a root and a rank that the root cannot reach; kUnavailable when
// cancelled. Complexity: trees * ranks * (ranks + re-evaluated routes, a few per rank) per round.
Result<Forest> BuildEcmpForest(const fabric::Topology& topology, const Problem& problem,
                               const EcmpForestOptions& options, const Control& control = {});

}  // namespace espalier::forest
