#pragma once

#include <functional>
#include <string>

#include "common/base/result.h"
#include "common/http/http.h"
#include "controller/controller.h"

namespace espalier::controller {

// Answers POST /api/v1/probe?source=A&destination=B with &port=P and &ports=N (SpreadPorts; P
// alone: one port): which path each source port takes now. `done` is called when the agent of A has
// reported, within a few seconds. Errors: those of OperatorProbes.
void Probe(Controller& controller, const io::HttpRequest& request,
           std::function<void(Result<std::string>)> done);

}  // namespace espalier::controller
