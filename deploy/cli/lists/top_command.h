#pragma once

#include "deploy/cli/session/operator_session.h"

namespace espalier::cli {

// Adds `espalier top`: a live view of the fabric's health, its busiest links and its slowest jobs.
void AddTop(CLI::App& app, const SessionPtr& session);

}  // namespace espalier::cli
