#pragma once

#include <cstdint>
#include <string>

#include "agent/local/rank_plan_client.h"
#include "collective/runtime/calls/collective_plan.h"
#include "collective/runtime/offload/job_directory.h"

namespace espalier::client {

// Computes from one rank's plan how that rank joins its job's group: store, name and options. Used
// by the program, or by the offload service that takes part for it. `number` tells apart the groups
// that a job forms one after another.
runtime::GroupJoinInfo MakeGroupJoinInfo(const agent::LocalRankPlan& plan, const std::string& job,
                                         std::uint32_t number);

// The addresses of the rank's connections by this plan.
runtime::PlanAddresses AddressesOf(const agent::LocalRankPlan& plan);

}  // namespace espalier::client
