#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "controller/controller.h"

namespace espalier::controller {

// Lists that may be long, as JSON objects: {"flows": [...]}, {"agents": [...]}. Each is written
// over as many turns of the loop as it takes, kListItemsPerTurn items in one, so that flows do not
// wait for it; where the items say what all flows do, as many flows are counted in a turn before.
// What begins or ends meanwhile may be in it or not; each item is true when it is written.
inline constexpr std::size_t kListItemsPerTurn = 256;

// What of a list is asked for.
struct Page {
  std::optional<std::size_t> limit;  // items; none: all
  std::string after;                 // name of the item before the first one; "": from the start
  std::uint64_t since = 0;           // of plans: only those with a higher sequence number
};

using ListDone = std::function<void(Result<std::string>)>;

// Flows by agent, and in the order in which they were opened. Where the limit ends a list early,
// its "next" is the `after` of the page that follows. Calls back at once where one turn is enough.
// Errors: kInvalidArgument for an `after` that is no flow's name ("AGENT:NUMBER"), or no agent's.
void ListFlows(Controller& controller, const Page& page, ListDone done);
void ListAgents(Controller& controller, const Page& page, ListDone done);
// Links with what flows do to them, in the order of the topology; jobs that have flows, or had a
// round in the last ten minutes, which are known by numbers here, as one may have no name; the
// latest decisions as they were pushed, oldest first, by their sequence numbers. Errors: as above.
void ListLinks(Controller& controller, const Page& page, ListDone done);
void ListJobs(Controller& controller, const Page& page, ListDone done);
void ListPlans(Controller& controller, const Page& page, ListDone done);

}  // namespace espalier::controller
