#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "common/fabric/topology.h"
#include "controller/forests/tree_job.h"
#include "controller/intents/job_spec.h"

namespace espalier::controller {

using TreeJobTable = std::map<std::string, TreeJob>;  // by name

// By rank: ports to be reached at that no job has on the same host, for as long as this one runs:
// its programs listen there from the first plan that they get to the last. By host, not by NIC:
// whatever forests a job gets, whatever NICs they use, its ports are its own.
std::vector<std::uint16_t> ChooseListenPorts(const fabric::Topology& topology,
                                             const TreeJobTable& jobs, const JobSpec& spec);

}  // namespace espalier::controller
