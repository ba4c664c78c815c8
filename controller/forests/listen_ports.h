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

// By rank: a listen port that no other job has on the same host. Programs listen there from their
// first rank plan to their last. Ports are unique for a host, not for a NIC, so that they stay
// valid whatever forests and NICs a job gets.
std::vector<std::uint16_t> ChooseListenPorts(const fabric::Topology& topology,
                                             const TreeJobTable& jobs, const JobSpec& spec);

}  // namespace espalier::controller
