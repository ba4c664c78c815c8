#pragma once

#include "controller/api/lists/lists.h"

namespace espalier::controller {

// Lists the path map, with totals and then pair by pair, in the order of fabric::PortKey; with
// `source`, only its pairs. Earlier turns count all keys: O(ports known). Without a limit, a page
// has 1,000 pairs, as the map may hold tens of thousands for each NIC. Errors: kInvalidArgument for
// an `after` that is not the "next" of a page. A pair that was forgotten since is accepted.
void ListPathMap(Controller& controller, const Page& page, ListDone done);

}  // namespace espalier::controller
