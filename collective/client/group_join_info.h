#pragma once

#include <cstdint>
#include <string>

#include "agent/local/rank_plan_client.h"
#include "collective/runtime/offload/job_directory.h"

namespace espalier::client {

// Where the ranks of a job meet, by the plan of one of them: for the program whose rank it is, and
// for the engine that takes part in its place. `number` tells apart the groups that a job forms one
// after another.
runtime::GroupJoinInfo MakeGroupJoinInfo(const agent::LocalRankPlan& plan, const std::string& job,
                                         std::uint32_t number);

}  // namespace espalier::client
