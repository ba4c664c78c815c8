#pragma once

#include <optional>

#include "common/fabric/paths.h"
#include "controller/forests/job_forest.h"

namespace espalier::controller {

// Moves the connections of a forest that have lost their paths (links that are not UP) to other
// paths between the same NICs. The trees stay, and with them the program and its proof, so that
// nothing is to be lowered, verified or packed.
//
// Idea: the connections without a path are moved in the order of the forest's edges. Each takes the
// path whose most loaded link, with this connection and relative to its capacity, is the least
// loaded. A greedy choice is not always the best one, and other trees may suit the damaged fabric
// better, so algbw_gbps says what the result attains: data over the time of the most loaded link,
// for each phase, and at most the throughput of the given forest. bound_gbps stays as it was.
//
// `request`: its `previous` is the forest; `paths` are those of its topology. None if a connection
// has no other path, if a NIC of a rank with a choice of NICs has lost its link, or if the forest
// does not meet `one_nic` or `whole_program`. The same input gives the same result, and a forest
// that has just been rerouted stays as it is. Pure; O(edges x hops + moved edges x paths x hops):
// part of forest_failover_bench (BM_AForestsLinkFails).
std::optional<JobForest> RerouteForest(const ForestRequest& request,
                                       const fabric::PathTable& paths);

}  // namespace espalier::controller
