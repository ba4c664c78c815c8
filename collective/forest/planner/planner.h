#pragma once

#include <cstdint>
#include <optional>

#include "collective/forest/model/control.h"
#include "collective/forest/model/problem.h"
#include "collective/forest/model/tree_schedule.h"
#include "collective/forest/planner/reuse_trees.h"
#include "collective/forest/problem/build_problem.h"
#include "collective/forest/verifier/verifier.h"
#include "common/base/result.h"
#include "common/fabric/topology.h"

namespace espalier::forest {

struct ScheduleOptions {
  Collective collective = Collective::kAllgather;
  // The ranks and their share of the links. Weights apply only to allgather, reduce-scatter and
  // allreduce.
  ProblemOptions problem;
  // The root of a broadcast or reduce: a rank.
  std::optional<fabric::NodeId> root;
  // A fixed k or a limit on k; at most one of the two. 0: free.
  std::int64_t trees_per_weight = 0;
  std::int64_t max_trees_per_weight = 0;
  // Tries the constructions for networks of a known structure before the general one.
  bool use_structure = true;
  // The limit on reducing tree heights, in moves considered.
  std::int64_t height_steps = 20'000'000;
  // Uses only paths that ECMP really takes, with one NIC per rank: a good forest, not always the
  // best one (ecmp/ecmp_forest.h). Excludes `previous`.
  bool ecmp_only = false;
  // Trees of an earlier schedule are kept if the throughput stays optimal.
  std::optional<PreviousSchedule> previous;
  // Work that needs more memory than this is refused before it begins.
  std::int64_t memory_limit_bytes = std::int64_t{8} << 30;
};

struct VerifiedSchedule {
  TreeSchedule schedule;
  Findings findings;  // of the verifier, which has accepted the schedule
  // How much of the previous schedule was kept, if there is one. kept = 0: the forest is new.
  Reuse reuse;
};

// Computes a verified schedule from a topology: bound, number of trees, forest (by the first
// construction that applies: label trees, boxes, general), shallower trees, verification.
//
// Stages reported: "bound", "switch removal", "packing", "height", "verify".
// Errors: those of BuildProblem, ComputeOptimality, CountTrees, ReuseTrees and BuildEcmpForest;
// kInvalidArgument for options that exclude each other; kResourceExhausted if memory_limit_bytes is
// too small (with an estimate); kUnavailable when cancelled; kInternal if the verifier rejects the
// result.
Result<VerifiedSchedule> MakeTreeSchedule(const fabric::Topology& topology,
                                          const ScheduleOptions& options,
                                          const Control& control = {});

// Estimates from experience the memory that computing a schedule takes: parent arrays of a few
// classes per root, twice, and the routes.
std::int64_t EstimateScheduleBytes(const Problem& problem);

}  // namespace espalier::forest
