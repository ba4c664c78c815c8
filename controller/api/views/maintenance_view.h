#pragma once

#include <string>

#include "controller/controller.h"

namespace espalier::controller {

// The maintenance windows as JSON, by id: what each covers, its times, its state (WAITING, ACTIVE,
// or HELD if its beginning would cut off flows), and who added it. O(windows).
std::string MaintenanceView(const Controller& controller);

}  // namespace espalier::controller
