#pragma once

#include <cstdint>
#include <optional>

#include "collective/forest/bound/optimality.h"
#include "collective/forest/model/control.h"
#include "collective/forest/model/forest.h"
#include "collective/forest/model/problem.h"
#include "collective/forest/model/tree_schedule.h"
#include "common/base/result.h"
#include "common/fabric/topology.h"

namespace espalier::forest {

// A plan made earlier, for a fabric that has since lost or gained something, or for other ranks.
// Nothing of it is trusted. Both must stay alive.
struct PreviousSchedule {
  const TreeSchedule* plan = nullptr;
  const fabric::Topology* topology = nullptr;  // whose nodes the plan names; ids are what counts
};

// How much of a plan is that of an earlier one: trees of equal weight, over all its forests.
struct Reuse {
  std::int64_t kept = 0;
  std::int64_t rerouted = 0;  // of these: their logical edges are kept, some paths are new
  std::int64_t all = 0;
};

struct ReuseOptions {
  bool reversed = false;       // which phase of the previous plan: that of the in-trees
  bool any_tree_count = true;  // k may be another multiple, with U in proportion
  // k may be the previous one, where that keeps all trees (else a common multiple is taken).
  bool previous_tree_count = true;
  bool use_structure = true;  // of the network, for what is packed
  std::int64_t height_steps = 0;
};

// A forest as fast as `count` says, with as many trees of the previous plan as were found to leave
// a rest that can be packed. A tree is kept with its edges, paths and share of its root's shard.
//
// Idea. A tree is a candidate if all its paths still are there or others can be found for those
// that are not (reroute_trees.h); of one over ranks that have gone, branches that reach nobody any
// more are cut off. Kept trees leave capacities and demands of the roots. In this rest the switches
// are still balanced, the ranks are not: trees enter a rank once and leave it any number of times.
// A rank with too much entering returns the surplus to the source, which harms no flow; where too
// much leaves, capacity is taken away. The rest is balanced then, so the general construction packs
// it if and only if enough flow reaches each rank: tested before trees are kept. What fails the
// test together is halved, in the order of the previous forest. Capacity that is taken away may
// refuse trees that could have been kept: the reuse is not claimed to be the most that is possible.
// The throughput is exact.
//
// The rest is made as trees between boxes (BuildHierarchical) where that applies, else by the
// general construction. None where less than half of the trees can be kept or exact products do not
// fit: a fresh forest is better then.
// reuse: on return more by the earlier trees of the forest.
// Errors: kInvalidArgument where the previous plan is not sound in itself; those of
// BuildShallowForest.
Result<std::optional<Forest>> ReuseTrees(const fabric::Topology& topology, const Problem& problem,
                                         const TreeCount& count, const PreviousSchedule& previous,
                                         const ReuseOptions& options, const Control& control,
                                         Reuse& reuse);

}  // namespace espalier::forest
