#pragma once

#include <string>
#include <string_view>

#include "deploy/cli/session/operator_session.h"

namespace espalier::cli {

// Adds `espalier describe link|node|job|agent|flow ID`: the state, the recent history, the events
// and the operators' actions that concern one thing, together.
void AddDescribe(CLI::App& app, const SessionPtr& session);

// Whether a text names this id, not only a longer one that contains it: "link=leaf0--spine1 why=x"
// names leaf0--spine1, and neither leaf0--spine1#2 nor spine1.
bool NamesId(std::string_view text, std::string_view id);

}  // namespace espalier::cli
