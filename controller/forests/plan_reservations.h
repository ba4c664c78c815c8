#pragma once

#include "common/base/event_loop.h"
#include "controller/forests/edge_ports.h"
#include "controller/forests/tree_job.h"
#include "controller/state/state.h"

namespace espalier::controller {

// Each edge of the job's plan in force that crosses the fabric reserves what it sends on its path,
// so that flows keep away from it, until ReleaseEdges.
void ReserveEdges(State& state, TreeJob& job, const EdgePorts& ports, TimePoint now);
void ReleaseEdges(State& state, JobPlan& plan);

}  // namespace espalier::controller
