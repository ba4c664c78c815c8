#pragma once

#include "common/files/json.h"
#include "deploy/cli/session/operator_session.h"

namespace espalier::cli {

// Adds `espalier explain FLOW`.
void AddExplain(CLI::App& app, const SessionPtr& session);

// Prints the controller's answer about a flow.
void PrintExplanation(const io::JsonValue& answer, bool is_verbose);

}  // namespace espalier::cli
