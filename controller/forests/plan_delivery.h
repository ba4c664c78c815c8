#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "controller/forests/tree_job.h"
#include "controller/state/state.h"

namespace espalier::controller {

// The agent of a rank; it is registered where it is not known yet.
AgentId AgentOfRank(State& state, const TreeJob& job, std::size_t rank);
// Each rank's part of the plan that is in force, for its agent: the publisher brings it there.
void DeliverPlans(State& state, const TreeJob& job);
// The job has ended: so have its ranks' plans.
void EndPlans(State& state, const TreeJob& job);
// Ranks whose agents have not acknowledged what is in force.
std::vector<std::uint32_t> UnacknowledgedRanks(const State& state, const TreeJob& job);

}  // namespace espalier::controller
