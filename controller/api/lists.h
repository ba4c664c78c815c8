#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "controller/api/list_writer.h"
#include "controller/controller.h"

namespace espalier::controller {

// Lists that may be long, as JSON objects: {"flows": [...]}, {"agents": [...]}. Each is written
// over as many turns of the loop as it takes (list_writer.h), so that flows do not wait for it;
// where the items say what all flows do, flows are counted in turns before. What begins or ends
// meanwhile may be in it or not; each item is true when it is written.

// What of a list is asked for.
struct Page {
  std::optional<std::size_t> limit;  // items; none: all
  std::string after;                 // name of the item before the first one; "": from the start
  std::uint64_t since = 0;  // of plans and events: only those with a higher sequence number
  std::string source;       // of the path map: only pairs from this NIC; "": from all
};

// Flows and edges of forests by agent and number. Where the limit ends a list early,
// its "next" is the `after` of the page that follows. Calls back at once where one turn is enough.
// Errors: kInvalidArgument for an `after` that is no flow's name ("AGENT:NUMBER"), or no agent's.
void ListFlows(Controller& controller, const Page& page, ListDone done);
void ListAgents(Controller& controller, const Page& page, ListDone done);
// Links with what flows do to them, in the order of the topology; jobs that have flows, or had a
// round in the last ten minutes, which are known by numbers here, as one may have no name; the
// latest decisions as they were pushed, oldest first, by their sequence numbers. Errors: as above.
void ListLinks(Controller& controller, const Page& page, ListDone done);
void ListJobs(Controller& controller, const Page& page, ListDone done);
void ListPushes(Controller& controller, const Page& page, ListDone done);
// What has happened, oldest first, by sequence numbers, with the latest number that was given.
void ListEvents(Controller& controller, const Page& page, ListDone done);
// The fabric as it is built: nodes and then links in their order, which live links and hops count
// by. A page may have some of both; `after` is "node:ID" or "link:ID".
void ListTopology(Controller& controller, const Page& page, ListDone done);

}  // namespace espalier::controller
