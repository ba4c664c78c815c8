#pragma once

#include <string>
#include <string_view>

#include "common/base/result.h"
#include "controller/controller.h"

namespace espalier::controller {

// The jobs whose collectives run on forests, with their forests, as one JSON object.
std::string ForestsView(const Controller& controller);
// The job plan in force as JSON: every edge with its port, path and part of the data.
// Errors: kNotFound for an unknown job.
Result<std::string> ForestPlanView(const Controller& controller, const std::string& name);

// Parses a request to start a job: {"name", "ranks": [...], "collective", "bytes", "offload",
// "transport", "user"}. The last five fields are optional. Errors: kInvalidArgument.
Result<JobSpec> ParseJobRequest(std::string_view body);

}  // namespace espalier::controller
