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
  // Who takes part, with what share of the links. Weights only for allgather, reduce-scatter and
  // allreduce.
  ProblemOptions problem;
  // Of broadcast and reduce: a rank.
  std::optional<fabric::NodeId> root;
  // k, where it is not free; at most one of the two. 0: free.
  std::int64_t trees_per_weight = 0;
  std::int64_t max_trees_per_weight = 0;
  // Tries the ways for networks of a known structure before the general one.
  bool use_structure = true;
  // What reducing the heights of trees may cost: moves looked at.
  std::int64_t height_steps = 20'000'000;
  // Only edges that switches which spread by ECMP really carry, at one NIC a rank: a good forest,
  // not always the best one (ecmp/ecmp_forest.h). Not with `previous`.
  bool ecmp_only = false;
  // Trees of an earlier plan are kept where the throughput stays the best one.
  std::optional<PreviousSchedule> previous;
  // Work that would need more memory than this is refused before it begins.
  std::int64_t memory_limit_bytes = std::int64_t{8} << 30;
};

struct VerifiedSchedule {
  TreeSchedule plan;
  Findings findings;  // of the verifier, which has passed
  // How much of the previous plan was kept, if there is one. kept = 0: the forest is a fresh one.
  Reuse reuse;
};

// The whole way from a topology to a verified plan: bound, number of trees, forest (the first way
// that applies: label trees, boxes, general), shallower trees, verification.
// Stages reported: "bound", "switch removal", "packing", "height", "verify".
// Errors: those of BuildProblem, ComputeOptimality, CountTrees, ReuseTrees and BuildEcmpForest;
// kInvalidArgument for options that do not go together; kResourceExhausted where memory_limit_bytes
// is too small (with an estimate); kUnavailable when cancelled; kInternal where the verifier
// refuses the result.
Result<VerifiedSchedule> MakeTreeSchedule(const fabric::Topology& topology,
                                          const ScheduleOptions& options,
                                          const Control& control = {});

// What a plan for a problem needs while it is made, by experience: parent arrays of a few
// classes a root, twice, and the routes.
std::int64_t EstimateScheduleBytes(const Problem& problem);

}  // namespace espalier::forest
