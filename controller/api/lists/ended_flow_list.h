#pragma once

#include "controller/api/lists/lists.h"
#include "controller/controller.h"

namespace espalier::controller {

// Lists the flows that ended last (EndedFlows) as {"flows": [...]}, oldest first, by sequence
// number. Errors: as for ListFlows.
void ListEndedFlows(Controller& controller, const Page& page, ListDone done);

}  // namespace espalier::controller
