#pragma once

#include <string_view>

#include "collective/forest/model/tree_schedule.h"
#include "common/base/result.h"
#include "common/fabric/topology.h"

namespace espalier::forest {

// Parses the output of FormatForestJson. Checks the form only; whether the schedule is sound is
// left to the verifier.
// Errors: kInvalidArgument "NAME:LINE:COL: what" for bad JSON, unknown fields, ids that the
// topology does not have, paths that do not lead from `from` to `to`, and two parents of one node
// in a tree.
Result<TreeSchedule> ParseForestJson(std::string_view text, std::string_view name,
                                     const fabric::Topology& topology);

}  // namespace espalier::forest
