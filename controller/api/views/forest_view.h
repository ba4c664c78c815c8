#pragma once

#include <string>

#include "common/base/result.h"
#include "controller/controller.h"

namespace espalier::controller {

// The jobs whose collectives run on forests, with their forests, as one JSON object.
std::string ForestsView(const Controller& controller);
// The job plan in force as JSON: every edge with its port, path and part of the data.
// Errors: kNotFound for an unknown job.
Result<std::string> ForestPlanView(const Controller& controller, const std::string& name);

}  // namespace espalier::controller
