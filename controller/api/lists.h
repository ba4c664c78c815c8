#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "controller/controller.h"

namespace espalier::controller {

// Lists that may be long, as JSON objects: {"flows": [...]}, {"agents": [...]}. Each is written
// over as many turns of the loop as it takes, kListItemsPerTurn items in one, so that flows do not
// wait for it. What begins or ends meanwhile may be in it or not; each item is true when it is
// written.
inline constexpr std::size_t kListItemsPerTurn = 256;

// What of a list is asked for.
struct Page {
  std::optional<std::size_t> limit;  // items; none: all
  std::string after;                 // name of the item before the first one; "": from the start
};

using ListDone = std::function<void(Result<std::string>)>;

// Flows by agent, and in the order in which they were opened. Where the limit ends a list early,
// its "next" is the `after` of the page that follows. Calls back at once where one turn is enough.
// Errors: kInvalidArgument for an `after` that is no flow's name ("AGENT:NUMBER"), or no agent's.
void ListFlows(Controller& controller, const Page& page, ListDone done);
void ListAgents(Controller& controller, const Page& page, ListDone done);

}  // namespace espalier::controller
