#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "collective/forest/allreduce/allreduce_proof.h"
#include "collective/forest/files/forest_json.h"
#include "collective/forest/files/forest_summary.h"
#include "collective/forest/model/tree_schedule.h"
#include "collective/forest/planner/reuse_trees.h"
#include "collective/forest/verifier/verifier.h"
#include "common/base/result.h"
#include "common/fabric/topology.h"

namespace espalier::forest {

// The texts that `espalier forest` prints about a tree schedule.

// Formats a schedule as `format` says, one of the values of --format. `tree` is the class of trees
// that the format dot draws. Errors: those of the formats.
Result<std::string> FormatSchedule(const fabric::Topology& topology, const TreeSchedule& schedule,
                                   const Findings& findings,
                                   const std::vector<ClassSaving>& savings,
                                   const StageSeconds& seconds, const std::string& format,
                                   std::size_t tree,
                                   const std::optional<AllreduceProof>& proof = std::nullopt);

// Formats the figures of a schedule without its trees, as one JSON object.
std::string FormatFigures(const TreeSchedule& schedule, const Findings& findings,
                          const std::vector<ClassSaving>& savings, const StageSeconds* seconds,
                          const std::optional<AllreduceProof>& proof = std::nullopt,
                          const std::optional<Reuse>& reuse = std::nullopt);

// Describes for people how many trees of the previous schedule are reused.
std::string DescribeReuse(const Reuse& reuse);

}  // namespace espalier::forest
