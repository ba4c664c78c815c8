#pragma once

#include <string_view>

#include "common/base/result.h"
#include "controller/intents/job_spec.h"

namespace espalier::controller {

// Parses a request to start a job: {"name", "ranks": [...], "collective", "bytes", "offload",
// "transport", "user"}. The last five fields are optional. Errors: kInvalidArgument.
Result<JobSpec> ParseJobRequest(std::string_view body);

}  // namespace espalier::controller
