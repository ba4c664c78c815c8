#pragma once

#include <cstdint>
#include <vector>

#include "collective/forest/model/problem.h"
#include "collective/forest/model/tree_schedule.h"
#include "common/base/result.h"
#include "common/fabric/topology.h"

namespace espalier::forest {

// Trees of an earlier plan that still join all ranks, in the ranks and arcs of a problem.
struct PreviousTrees {
  struct Tree {
    Rank root = 0;
    // Its part of the root's shard is count / of.
    std::int64_t count = 0;
    std::int64_t of = 0;
    bool rerouted = false;  // not all its paths are those of the earlier plan
    std::vector<Rank> parents;
    std::vector<std::int32_t> routes;  // by child, into `routes`; -1 at the root or for lost paths

    // How many trees of a problem it stands for.
    std::int64_t Units(const Problem& problem, std::int64_t per_weight) const;
  };
  std::vector<Tree>
      trees;  // first those that have all their paths, then rerouted ones (reroute_trees.h)
  std::vector<Tree> broken;                       // those that have lost paths
  std::vector<std::vector<std::int32_t>> routes;  // arcs of the problem, from parent to child
  std::size_t whole_trees = 0;                    // of `trees`, and their part of `routes`
  std::size_t whole_routes = 0;
  std::int64_t trees_per_weight = 0;
};

// None is rerouted yet. topology: of the problem; nodes are the same where their ids are. reversed:
// which phase. Errors: kInvalidArgument where the plan's trees are none, or have no routes.
Result<PreviousTrees> FindPreviousTrees(const fabric::Topology& topology, const Problem& problem,
                                        const TreeSchedule& plan,
                                        const fabric::Topology& plan_topology, bool reversed);

}  // namespace espalier::forest
