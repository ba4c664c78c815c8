#pragma once

#include <string>

#include "common/base/result.h"
#include "controller/controller.h"

namespace espalier::controller {

// Explains why a flow is on its path: the load of every path of its pair, and the known ports. The
// flow is named "AGENT:NUMBER", "SOURCE>DESTINATION", or "SOURCE>DESTINATION#2" for the second one.
// A flow that has ended lately is returned as EndedFlowView has it. Errors: kNotFound.
Result<std::string> ExplainView(const Controller& controller, const std::string& flow);

}  // namespace espalier::controller
