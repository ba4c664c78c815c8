#pragma once

#include "deploy/cli/session/operator_session.h"

namespace espalier::cli {

// Adds the commands that list the controller's state, its decisions and what operators ordered:
// flows, jobs, links, nodes, agents, plans, predict, events, intents, audit. Each can be filtered,
// sorted, limited, watched, and printed as a table, CSV or JSON.
void AddListCommands(CLI::App& app, const SessionPtr& session);

}  // namespace espalier::cli
