#pragma once

#include <span>
#include <string>
#include <string_view>

#include "deploy/cli/session/operator_session.h"

namespace espalier::cli {

// Returns the name that a mistyped one means; "": none is alike. Beside ClosestName, it finds a
// link whose ends were swapped or separated otherwise: "spine1-leaf0" for leaf0--spine1.
std::string MeantName(std::string_view word, std::span<const std::string> names);

// Adds the name that may be meant to an error message of the controller about a link, node, flow,
// job, agent or maintenance window that there is not: `there is no link "leaf0-spine1" (did you
// mean leaf0--spine1? ...)`. Asks the controller for its names, for at most two seconds. A message
// of another form, and one whose name is like no other, stays as it is.
std::string AddNameHint(const Session& session, const std::string& message);

// Warns on standard error if the controller has no job of this name now, and names those that it
// has: an action may be meant for a job that starts later, or the name is mistyped. Prints nothing
// if the controller does not answer.
void WarnOfUnknownJob(Session& session, const std::string& job);

}  // namespace espalier::cli
