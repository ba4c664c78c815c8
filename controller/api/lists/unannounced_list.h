#pragma once

#include <string>

#include "controller/controller.h"

namespace espalier::controller {

// The large flows that switches saw and no agent reports: {"flows": [...]}.
std::string UnannouncedFlows(const Controller& controller);

}  // namespace espalier::controller
