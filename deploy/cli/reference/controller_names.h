#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/base/event_loop.h"
#include "deploy/cli/reference/argument_kind.h"
#include "deploy/cli/session/operator_session.h"

namespace espalier::cli {

// Asks the running controller for the names of a kind that start with `partial` and are safe to
// offer (IsSafeName), in the controller's order. Prints nothing. If the controller does not answer
// within `limit`, or answers with anything but a list, returns the names received until then.
std::vector<std::string> AskNames(const Session& session, ArgumentKind kind,
                                  std::string_view partial, Duration limit);

}  // namespace espalier::cli
