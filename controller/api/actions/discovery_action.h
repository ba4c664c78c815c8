#pragma once

#include <string>

#include "common/base/result.h"
#include "common/http/http.h"
#include "controller/controller.h"

namespace espalier::controller {

// Answers POST /api/v1/topology/discover: has the agents discover the fabric, or continue, and
// returns DiscoveryView. Parameters: fresh=true forgets what was found before; network=PREFIX,...
// names the networks whose NICs take part. Errors: kInvalidArgument; those of DiscoveryRun::Start.
Result<std::string> StartDiscovery(Controller& controller, const io::HttpRequest& request);

// What discovery has found so far, as the object that `espalier topology import discovery` reads:
// switches, links between them and NICs, what is missing, and what contradicts itself.
std::string DiscoveryView(Controller& controller);

// What it says against the topology in force and against the discovery before it, in sentences, and
// how much was found.
std::string DiscoveryFindings(Controller& controller);

}  // namespace espalier::controller
