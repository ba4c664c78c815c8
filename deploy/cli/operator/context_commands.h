#pragma once

#include "deploy/cli/session/operator_session.h"

namespace espalier::cli {

// Adds `espalier context list|set|use|remove`, which keep the controllers that a user works with.
void AddContexts(CLI::App& app, const SessionPtr& session);

}  // namespace espalier::cli
