#pragma once

#include <string>

#include "controller/controller.h"

namespace espalier::controller {

// What operators let Espalier steer, as JSON: a sentence, the switch, the percentage of hosts, how
// many hosts and flows that concerns, and the settings with their authors. O(hosts + flows).
std::string SteeringView(const Controller& controller);

}  // namespace espalier::controller
