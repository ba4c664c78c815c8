#pragma once

namespace CLI {
class App;
}

namespace espalier::cli {

// Adds the commands that talk to a running controller: status, flows, links, agents, plans,
// predict, advise, explain, events, fail, restore, drain, undrain, recompute, weight, policy, job,
// rollback, reload, intents and audit. A command sets exit_code when it has run: 0 done, 1 refused
// or failed, 2 bad usage. app and exit_code must outlive the parsing.
void AddOperatorCommands(CLI::App& app, int& exit_code);

}  // namespace espalier::cli
