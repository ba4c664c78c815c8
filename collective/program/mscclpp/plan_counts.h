#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "collective/program/mscclpp/plan.h"
#include "collective/program/verifier/structure.h"

namespace espalier::program {

// Checks what does not depend on the order of operations: no channel gets more signals than the
// other end waits for, semaphores end as they begin, and as many blocks use a barrier as it states.
// What would be left over would reach the next run. Linear in operations.
// Returns kCountMismatch, or kStructure for barriers.
std::optional<Violation> CheckPlanCounts(const ExecutionPlan& plan);

// "a memory channel to rank 3".
std::string DescribeChannel(const ExecutionPlan& plan, std::int32_t rank, std::int32_t channel);

}  // namespace espalier::program
