#pragma once

#include <string>

#include "controller/controller.h"

namespace espalier::controller {

// The predictions for each job and the state of the failure plans, as JSON.
std::string PredictionsView(const Controller& controller);

}  // namespace espalier::controller
