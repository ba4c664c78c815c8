#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/base/event_loop.h"
#include "deploy/cli/operator/operator_session.h"
#include "deploy/cli/reference/argument_kind.h"

namespace espalier::cli {

// The names of a kind that start with `partial` and are safe to offer (IsSafeName), as the running
// controller knows them, in its order. Nothing is printed: where no controller answers within
// `limit`, or answers with anything else than a list, there are none, or those that came before.
std::vector<std::string> AskNames(const Session& session, ArgumentKind kind,
                                  std::string_view partial, Duration limit);

}  // namespace espalier::cli
