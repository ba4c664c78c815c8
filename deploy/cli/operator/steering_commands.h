#pragma once

#include <CLI/CLI.hpp>

#include "deploy/cli/session/operator_session.h"

namespace espalier::cli {

// Adds `steering`, which shows what the controller steers, and `steering on` and `steering off`.
void AddSteering(CLI::App& app, const SessionPtr& session);

}  // namespace espalier::cli
