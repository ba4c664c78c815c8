#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/base/time/event_loop.h"
#include "deploy/cli/session/operator_session.h"

namespace espalier::cli {

// What the running controller has names of.
enum class NameKind {
  kLink,
  kNode,
  kFlow,
  kJob,
  kTreeJob,  // a job that `job start` started
  kPolicy,
  kAgent,
  kWindow,     // of maintenance
  kEventKind,  // those that the controller can write
};

// Asks the running controller for the names of a kind that start with `partial` and are safe to
// offer (IsSafeName), in the controller's order. Prints nothing. If the controller does not answer
// within `limit`, or answers with anything but a list, returns the names received until then.
std::vector<std::string> AskNames(const Session& session, NameKind kind, std::string_view partial,
                                  Duration limit);

// Returns whether a name is safe to offer to a shell. Names come from hosts and from other users,
// so that a safe name begins with a letter or a digit and has no character that is special to a
// shell or a terminal.
bool IsSafeName(std::string_view name);

}  // namespace espalier::cli
