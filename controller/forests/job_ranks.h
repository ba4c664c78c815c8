#pragma once

#include <vector>

#include "common/base/result.h"
#include "common/fabric/topology.h"
#include "controller/intents/job_spec.h"

namespace espalier::controller {

// The compute nodes of a job. Errors: kInvalidArgument for a name that is no name, fewer than two
// ranks, unknown nodes, nodes that do not compute, one named twice.
Result<std::vector<fabric::NodeId>> ResolveRanks(const fabric::Topology& topology,
                                                 const JobSpec& spec);

}  // namespace espalier::controller
