#pragma once

#include "collective/synthesis/graphs/digraph.h"
#include "collective/synthesis/schedules/schedule.h"
#include "common/base/result.h"

namespace espalier::synthesis {

// Makes the classic ring schedule: every shard goes all the way round in N - 1 steps, half in each
// direction if the links go both ways. Optimal in bandwidth; the BFB schedule of the same ring
// takes half the steps.
// Errors: kFailedPrecondition for a network that is not one ring with equal links; kInvalidArgument
// for other collectives than allgather, reduce-scatter and allreduce.
Result<Schedule> MakeRingSchedule(const Digraph& graph, Collective collective);

}  // namespace espalier::synthesis
