#pragma once

#include <string>

#include "controller/controller.h"

namespace espalier::controller {

// The telemetry feeds that report or are missed, the links that they report as down, and the
// largest background loads, as one JSON object. O(links).
std::string FeedList(const Controller& controller);

}  // namespace espalier::controller
