#pragma once

#include <cstdint>
#include <optional>

#include "collective/forest/bound/tree_count.h"
#include "collective/forest/model/control.h"
#include "collective/forest/model/forest.h"
#include "collective/forest/model/problem.h"
#include "collective/forest/model/tree_schedule.h"
#include "common/base/result.h"
#include "common/fabric/topology.h"

namespace espalier::forest {

// A schedule made earlier, for a fabric that has since lost or gained something, or for other
// ranks. None of it is trusted. Both objects must stay alive.
struct PreviousSchedule {
  const TreeSchedule* plan = nullptr;
  const fabric::Topology* topology = nullptr;  // whose nodes the schedule names; ids identify them
};

// How much of a schedule comes from an earlier one: trees of equal weight, over all its forests.
struct Reuse {
  std::int64_t kept = 0;
  std::int64_t rerouted = 0;  // of `kept`: the logical edges stay, some paths are new
  std::int64_t all = 0;
};

struct ReuseOptions {
  bool reversed = false;       // which phase of the previous schedule: true for the in-trees
  bool any_tree_count = true;  // k may be another multiple, with U in proportion
  // k may be the previous one if that keeps all trees (else a common multiple is taken).
  bool previous_tree_count = true;
  bool use_structure = true;  // use the network's structure for the rest
  std::int64_t height_steps = 0;
};

// Builds a forest with the throughput of `count` that keeps as many trees of the previous schedule
// as were found to leave a rest that can be packed. A kept tree keeps its edges, its paths and its
// share of its root's shard.
//
// Idea: a tree is a candidate if all its paths still exist or others can replace the lost ones
// (reroute_trees.h). If ranks have left, branches that no longer reach any rank are cut off. The
// kept trees leave a rest: remaining capacities and remaining demands of the roots. In the rest the
// switches are still balanced but the ranks are not, as a tree enters a rank once and leaves it any
// number of times. A rank with too much incoming capacity returns the surplus to the source, which
// harms no flow; if too much leaves, capacity is removed. The rest is then balanced, so the general
// construction can pack it if and only if enough flow reaches each rank, which is tested before
// trees are kept. A set of trees that fails the test is halved, in the order of the previous
// forest. Removed capacity may exclude trees that could have been kept, so the reuse is not claimed
// to be maximal. The throughput is exact.
//
// The rest is built as trees between boxes (BuildHierarchical) if that applies, else by the general
// construction. Returns none if less than half of the trees can be kept or exact products do not
// fit: a new forest is better then.
// reuse: on return increased by the earlier trees of the forest.
// Errors: kInvalidArgument if the previous schedule is malformed; those of BuildShallowForest.
Result<std::optional<Forest>> ReuseTrees(const fabric::Topology& topology, const Problem& problem,
                                         const TreeCount& count, const PreviousSchedule& previous,
                                         const ReuseOptions& options, const Control& control,
                                         Reuse& reuse);

}  // namespace espalier::forest
