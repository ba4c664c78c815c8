#pragma once

#include <string>
#include <string_view>

#include "common/base/result.h"
#include "controller/controller.h"

namespace espalier::controller {

// Applies a declared schedule, the flows that a job will start together: {"job": NAME, "period_us":
// 1500000, "bytes": OF EACH, "transport": "verbs" or "tcp", "flows": [[NIC, NIC], ...]} with ids of
// the topology. All fields but the job and the flows are optional. Returns a JSON object with the
// number of accepted flows (Controller::DeclareStarts).
// Errors: kInvalidArgument, kNotFound for an unknown NIC, DeclareStarts'.
Result<std::string> DeclareSchedule(Controller& controller, std::string_view text);

}  // namespace espalier::controller
