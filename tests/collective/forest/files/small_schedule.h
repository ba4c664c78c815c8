#pragma once

#include "collective/forest/model/tree_schedule.h"
#include "common/fabric/topology.h"

namespace espalier::forest {

// The compute nodes a, b and c on the switch s: 10 Gbit/s to a and b, 20 to c.
fabric::Topology MakeSmallTopology();

// An allreduce of data that a is the root of, in two trees a phase, made by hand. Reduce-scatter:
// a star, and the chain c, b, a. Allgather: two stars. Four trees cross the link out of a, so it
// attains half of the bound. It is on a share of the links, and s adds up and copies.
TreeSchedule MakeSmallSchedule();

}  // namespace espalier::forest
