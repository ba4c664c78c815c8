#pragma once

#include <string>
#include <string_view>

#include "common/base/result.h"
#include "controller/controller.h"

namespace espalier::controller {

// The jobs whose collectives run on forests, and what those are, as one JSON object.
std::string ForestsView(const Controller& controller);
// The plan in force of one job: every edge with its port, path and part of the data.
// Errors: kNotFound for no such job.
Result<std::string> ForestPlanView(const Controller& controller, const std::string& name);

// What a request to start a job holds: {"name", "ranks": [...], "collective", "bytes", "offload",
// "transport", "user"}, of which the last five may be absent. Errors: kInvalidArgument.
Result<JobSpec> ParseJobRequest(std::string_view body);

}  // namespace espalier::controller
