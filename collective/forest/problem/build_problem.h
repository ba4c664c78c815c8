#pragma once

#include <cstdint>
#include <vector>

#include "collective/forest/model/problem.h"
#include "common/base/result.h"
#include "common/base/units.h"
#include "common/fabric/topology.h"

namespace espalier::forest {

// The ranks of a collective and their share of a topology.
struct ProblemOptions {
  // The compute nodes that take part; empty: all.
  std::vector<fabric::NodeId> ranks;
  // Shard sizes of the ranks, in the order of `ranks` (of the topology if that is empty); empty:
  // all equal. Whole numbers >= 0, not all zero.
  std::vector<std::int64_t> weights;
  // What each direction of each link has left for this collective, by DirectedLink::Index(); empty:
  // all of it. If that unbalances a node, capacity is removed until all nodes are balanced, as an
  // unbalanced switch allows no optimal forest.
  std::vector<BitsPerSecond> available;
  // False keeps capacities as they are, balanced or not: for bounds, not for forests.
  bool balanced = true;
};

// Builds the problem that forests are computed on.
// Errors: kInvalidArgument for fewer than two ranks or more than kMaxRanks; a rank named twice or
// that is not COMPUTE; weights that are negative, all zero or wrong in number; a node whose
// capacities in and out differ (named, with both), unless `available` is given; sums of rates that
// exceed 63 bits. Unreachable nodes are reported by ComputeOptimality, which names the cut.
// Complexity: O(nodes + links log links).
Result<Problem> BuildProblem(const fabric::Topology& topology, const ProblemOptions& options);

}  // namespace espalier::forest
