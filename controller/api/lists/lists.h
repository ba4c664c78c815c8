#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "controller/api/lists/list_writer.h"
#include "controller/controller.h"

namespace espalier::controller {

// Writes lists that may be long as JSON objects, such as {"flows": [...]}. A list takes as many
// turns of the loop as it needs (list_writer.h), so that flows do not wait for it. Lists with
// statistics of flows count the flows in earlier turns. Items that appear or disappear meanwhile
// may be in the list or not; each item is correct at the time it is written.

// The part of a list that is requested.
struct Page {
  std::optional<std::size_t> limit;  // number of items; none: all
  std::string after;                 // name of the item before the first one; "": from the start
  std::uint64_t since = 0;  // for pushes and events: only those with a higher sequence number
  std::string source{};     // for the path map: only pairs from this NIC; "": from all
  std::string link{};       // for flows: only those whose path has this link; "": all
};

// Lists the flows and the edges of forests by agent and number. If the limit ends a list early, its
// "next" is the `after` of the following page. `done` is called inside the call if one turn is
// enough. Errors: kInvalidArgument for an `after` that is not a flow name ("AGENT:NUMBER") or names
// an unknown agent.
void ListFlows(Controller& controller, const Page& page, ListDone done);
void ListAgents(Controller& controller, const Page& page, ListDone done);
// Lists the nodes of the topology with their present state, in the order of the topology.
void ListNodes(Controller& controller, const Page& page, ListDone done);
// List links with their traffic in the order of the topology; jobs that have flows, or had a round
// in the last ten minutes, by number, as a job may have no name; and the latest pushed decisions,
// oldest first, by sequence number. Errors: as for ListFlows.
void ListLinks(Controller& controller, const Page& page, ListDone done);
void ListJobs(Controller& controller, const Page& page, ListDone done);
void ListPushes(Controller& controller, const Page& page, ListDone done);
// Lists events, oldest first, by sequence number, with the latest sequence number.
void ListEvents(Controller& controller, const Page& page, ListDone done);
// Lists the nodes and then the links of the topology in their order; indices elsewhere refer to
// this order. A page may hold some of both; `after` is "node:ID" or "link:ID".
void ListTopology(Controller& controller, const Page& page, ListDone done);

}  // namespace espalier::controller
