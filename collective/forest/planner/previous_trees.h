#pragma once

#include <cstdint>
#include <vector>

#include "collective/forest/model/problem.h"
#include "collective/forest/model/tree_schedule.h"
#include "common/base/result.h"
#include "common/fabric/topology.h"

namespace espalier::forest {

// Trees of an earlier schedule that still join all ranks, in terms of the ranks and arcs of a
// problem.
struct PreviousTrees {
  struct Tree {
    Rank root = 0;
    // Its part of the root's shard is count / of.
    std::int64_t count = 0;
    std::int64_t of = 0;
    bool rerouted = false;  // some of its paths differ from the earlier schedule's
    std::vector<Rank> parents;
    std::vector<std::int32_t> routes;  // by child, into `routes`; -1 at the root or for lost paths

    // Returns how many trees of a problem it represents.
    std::int64_t Units(const Problem& problem, std::int64_t per_weight) const;
  };
  std::vector<Tree> trees;   // first whole trees, then rerouted ones (reroute_trees.h)
  std::vector<Tree> broken;  // trees that have lost paths
  std::vector<std::vector<std::int32_t>> routes;  // arcs of the problem, from parent to child
  std::size_t whole_trees = 0;  // how many of `trees` are whole, and their part of `routes`
  std::size_t whole_routes = 0;
  std::int64_t trees_per_weight = 0;
};

// Finds the trees; none of them is rerouted yet. topology: that of the problem; nodes are the same
// if their ids are. reversed: which phase. Errors: kInvalidArgument if the earlier schedule's trees
// are malformed or have no routes.
Result<PreviousTrees> FindPreviousTrees(const fabric::Topology& topology, const Problem& problem,
                                        const TreeSchedule& schedule,
                                        const fabric::Topology& previous_topology, bool reversed);

}  // namespace espalier::forest
