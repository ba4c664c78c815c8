#pragma once

#include <optional>
#include <string>

#include "controller/api/lists.h"
#include "controller/controller.h"

namespace espalier::controller {

// Lists the flows that ended last (EndedFlows) as {"flows": [...]}, oldest first, by sequence
// number. Errors: as for ListFlows.
void ListEndedFlows(Controller& controller, const Page& page, ListDone done);

// The flow of this name that ended last, as {"ended": {...}}; none if it is not known. The name is
// "AGENT:NUMBER" or "SOURCE>DESTINATION".
std::optional<std::string> EndedFlowView(const Controller& controller, const std::string& name);

}  // namespace espalier::controller
