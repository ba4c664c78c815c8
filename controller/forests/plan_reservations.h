#pragma once

#include "common/base/time/event_loop.h"
#include "controller/forests/edge_ports.h"
#include "controller/forests/tree_job.h"
#include "controller/state/state.h"

namespace espalier::controller {

// Reserves, for each edge of the job plan in force that crosses the fabric, the load that it puts
// on its path, so that flows avoid it. The reservations last until ReleaseEdges.
void ReserveEdges(State& state, TreeJob& job, const EdgePorts& ports, TimePoint now);
void ReleaseEdges(State& state, JobPlan& plan);

}  // namespace espalier::controller
