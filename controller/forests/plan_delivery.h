#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "controller/forests/tree_job.h"
#include "controller/state/state.h"

namespace espalier::controller {

// The agent of a rank, which is registered if it is unknown.
AgentId AgentOfRank(State& state, const TreeJob& job, std::size_t rank);
// Queues the rank plans of the job plan in force; the publisher sends them to the ranks' agents.
void DeliverPlans(State& state, const TreeJob& job);
// Withdraws the rank plans of a job that has ended.
void EndPlans(State& state, const TreeJob& job);
// The ranks whose agents have not acknowledged the plan in force.
std::vector<std::uint32_t> UnacknowledgedRanks(const State& state, const TreeJob& job);

}  // namespace espalier::controller
