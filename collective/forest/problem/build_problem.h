#pragma once

#include <cstdint>
#include <vector>

#include "collective/forest/model/problem.h"
#include "common/base/result.h"
#include "common/base/units.h"
#include "common/fabric/topology.h"

namespace espalier::forest {

// Who takes part in a collective, and with what share of a topology.
struct ProblemOptions {
  // Which compute nodes take part; empty: all.
  std::vector<fabric::NodeId> ranks;
  // Shard sizes of the ranks, in the order of `ranks` (of the topology, where that is empty);
  // empty: all equal. Any whole numbers >= 0, not all zero.
  std::vector<std::int64_t> weights;
  // What each direction of each link has left for this collective, by DirectedLink::Index();
  // empty: all of it. Where that unbalances a node, capacity is taken away until all are
  // balanced (there is no optimal forest of an unbalanced switch otherwise).
  std::vector<BitsPerSecond> available;
  // False leaves capacities as they are, balanced or not: for bounds, not for forests.
  bool balanced = true;
};

// Errors: kInvalidArgument: fewer than two ranks or more than kMaxRanks; a rank named twice or
// that is no COMPUTE; weights of the wrong number, negative, all zero; a node that has more
// capacity in than out, or less (named, with both), unless `available` is given; sums of rates
// past 63 bits.
// Unreachable nodes are not found here but by ComputeOptimality, which names the cut.
// Complexity: O(nodes + links log links).
Result<Problem> BuildProblem(const fabric::Topology& topology, const ProblemOptions& options);

}  // namespace espalier::forest
