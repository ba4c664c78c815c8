#pragma once

#include <string_view>

#include "collective/synthesis/all_to_all.h"
#include "common/base/result.h"
#include "common/fabric/topology.h"

namespace espalier::synthesis {

// Parses how many bytes each node sends to each other: {"n0": {"n1": 1024, "n2": 0}}. What is not
// named is 0. Nodes are the topology's, in its order.
// Errors: kInvalidArgument "NAME:LINE:COL: what" for bad JSON, unknown nodes, and values that are
// not whole numbers from 0 to kMaxDemand.
Result<Demand> ParseDemand(std::string_view text, std::string_view name,
                           const fabric::Topology& topology);

}  // namespace espalier::synthesis
