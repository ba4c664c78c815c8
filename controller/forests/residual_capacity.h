#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "common/base/units.h"
#include "controller/forests/tree_job.h"
#include "controller/planning/failure_plans.h"
#include "controller/state/state.h"

namespace espalier::controller {

// What other flows leave of each direction of each link for a job (null: one that is yet to come),
// by DirectedLink::Index(); empty: all of every link. As if the job were one more flow on each
// link: a load of L leaves it rate / (1 + L), in twelfths, as finer parts make forests of more
// trees for little. With `failed`: as if that had failed, and flows had followed their plans for
// it. O(flows + links).
std::vector<BitsPerSecond> ResidualCapacity(const State& state, FailurePlans& failure_plans,
                                            const TreeJob* job,
                                            std::optional<LinkOrSwitch> failed = std::nullopt);
// Tells (but for collisions) whether two such are the same.
std::uint64_t DigestOf(const std::vector<BitsPerSecond>& rates);

}  // namespace espalier::controller
