#pragma once

#include "deploy/cli/session/operator_session.h"

namespace espalier::cli {

// Adds `espalier bundle`, which writes what support needs into one file: the controller's state,
// its events and metrics, and its configuration, without secrets.
void AddBundle(CLI::App& app, const SessionPtr& session);

}  // namespace espalier::cli
