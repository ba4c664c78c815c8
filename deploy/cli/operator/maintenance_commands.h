#pragma once

#include <CLI/CLI.hpp>

#include "deploy/cli/session/operator_session.h"

namespace espalier::cli {

// Adds `maintenance`, which lists maintenance windows, and `maintenance add` and `cancel`.
void AddMaintenance(CLI::App& app, const SessionPtr& session);

}  // namespace espalier::cli
