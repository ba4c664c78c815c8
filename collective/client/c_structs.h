#pragma once

#include "collective/client/espalier_collective.h"
#include "collective/runtime/calls/collective_plan.h"
#include "collective/runtime/group/communicator.h"
#include "common/base/result.h"

namespace espalier::client {

// The structures of the C interface as the runtime has them.

Error Refuse(const char* what);  // kInvalidArgument
// The join must end within the timeout from now. Errors: kInvalidArgument.
Result<runtime::CommunicatorOptions> ToOptions(const espalier_comm_options& from);
// Errors: kInvalidArgument; those of program::DecodeProgram.
Result<runtime::CollectivePlan> ToPlan(const espalier_plan& from);

}  // namespace espalier::client
