#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "common/files/json.h"
#include "deploy/cli/session/operator_session.h"

namespace espalier::cli {

// Adds `advise`, which says what steering would gain.
void AddAdvise(CLI::App& app, const SessionPtr& session);

// The answer of GET /api/v1/advise in words and tables. `colours`: for a terminal.
std::string AdviceText(const io::JsonValue& answer, bool colours);

}  // namespace espalier::cli
