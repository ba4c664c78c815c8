#pragma once

#include <cstdint>
#include <vector>

#include "collective/forest/plan.h"
#include "collective/forest/problem.h"
#include "common/base/result.h"
#include "common/fabric/topology.h"

namespace espalier::forest {

// Trees of an earlier plan that a problem still has all paths of, in the problem's ranks and arcs.
struct EarlierTrees {
  struct Tree {
    Rank root = 0;
    // Its part of the root's shard is count / of.
    std::int64_t count = 0;
    std::int64_t of = 0;
    std::vector<Rank> parents;
    std::vector<std::int32_t> routes;  // by child, into `routes`; -1 at the root
  };
  std::vector<Tree> trees;
  std::vector<std::vector<std::int32_t>> routes;  // arcs of the problem, from parent to child
  std::int64_t trees_per_weight = 0;
};

// topology: of the problem; nodes are the same where their ids are. reversed: which phase.
// Errors: kInvalidArgument where the plan's trees are none, or have no routes.
Result<EarlierTrees> FindEarlierTrees(const fabric::Topology& topology, const Problem& problem,
                                      const Plan& plan, const fabric::Topology& plan_topology,
                                      bool reversed);

}  // namespace espalier::forest
