#pragma once

#include "deploy/cli/session/operator_session.h"

namespace espalier::cli {

// Adds `espalier probe A B`, which shows the path that a source port takes now, and `espalier probe
// --sweep`, which looks for links behind which probes get no answer.
void AddProbe(CLI::App& app, const SessionPtr& session);

// Adds `espalier paths export A B`, which prints source ports with weights for a sender that
// spreads its packets over several paths by itself.
void AddPaths(CLI::App& app, const SessionPtr& session);

}  // namespace espalier::cli
