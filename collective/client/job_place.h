#pragma once

#include <cstdint>
#include <string>

#include "agent/local/plan_client.h"
#include "collective/runtime/offload/group_authority.h"

namespace espalier::client {

// Where the ranks of a job meet, by the plan of one of them: for the program whose rank it is, and
// for the engine that takes part in its place. `number` tells apart the groups that a job forms one
// after another.
runtime::JobGroupPlace PlaceOfGroup(const agent::LocalPlan& plan, const std::string& job,
                                    std::uint32_t number);

}  // namespace espalier::client
