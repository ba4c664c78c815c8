#pragma once

#include "controller/api/lists.h"

namespace espalier::controller {

// What the path map knows, in all and pair by pair, in the order of fabric::PortKey; of one source
// where the page names one. All keys are counted in turns before: O(ports known). Without a limit
// it is a page of 1,000 pairs, as a map may hold tens of thousands of each NIC.
// Errors: kInvalidArgument for an `after` that no page has as "next"; a pair that was forgotten
// since is none.
void ListPathMap(Controller& controller, const Page& page, ListDone done);

}  // namespace espalier::controller
