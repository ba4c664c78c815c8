#pragma once

#include <optional>
#include <string>

#include "controller/controller.h"

namespace espalier::controller {

// A flow that has ended as a JSON object, as lists have it.
std::string EndedFlowItem(const Controller& controller, const EndedFlow& flow);

// The flow of this name that ended last, as {"ended": {...}}; none if it is not known. The name is
// "AGENT:NUMBER" or "SOURCE>DESTINATION".
std::optional<std::string> EndedFlowView(const Controller& controller, const std::string& name);

}  // namespace espalier::controller
