#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "common/base/units.h"
#include "controller/forests/tree_job.h"
#include "controller/planning/failure_plans.h"
#include "controller/state/state.h"

namespace espalier::controller {

// Computes the residual capacity of each directed link for a job (null: a job that does not exist
// yet), by DirectedLink::Index(); empty: the whole capacity of every link. The job counts as one
// more flow on each link: a load of L leaves it rate / (1 + L), rounded down to twelfths of the
// rate, because finer values lead to forests of more trees for little gain. With `failed`, the
// result is that after the failure of this domain, with flows on the backup paths of its failure
// plan. O(flows + links).
std::vector<BitsPerSecond> ResidualCapacity(const State& state, FailurePlans& failure_plans,
                                            const TreeJob* job,
                                            std::optional<LinkOrSwitch> failed = std::nullopt);
// A digest that tells, except for collisions, whether two results are equal.
std::uint64_t DigestOf(const std::vector<BitsPerSecond>& rates);

}  // namespace espalier::controller
