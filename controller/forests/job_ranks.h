#pragma once

#include <vector>

#include "common/base/result.h"
#include "common/fabric/topology.h"
#include "controller/intents/job_spec.h"

namespace espalier::controller {

// Finds the compute nodes of a job. Errors: kInvalidArgument for an invalid job name, fewer than
// two ranks, and nodes that are unknown, not compute nodes, or named twice.
Result<std::vector<fabric::NodeId>> ResolveRanks(const fabric::Topology& topology,
                                                 const JobSpec& spec);

}  // namespace espalier::controller
