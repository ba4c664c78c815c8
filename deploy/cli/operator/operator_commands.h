#pragma once

namespace CLI {
class App;
}

namespace espalier::cli {

// status, flows, links, agents, plans, explain, events, fail, restore, drain, undrain, recompute,
// rollback, intents, audit:
// all against a running controller (--controller ADDRESS, else $ESPALIER_CONTROLLER, else
// unix:/run/espalier-controller/controller.sock). Sets exit_code when a command has run: 0 done, 1
// refused or failed, 2 bad usage. app and exit_code must outlive the parsing.
void AddOperatorCommands(CLI::App& app, int& exit_code);

}  // namespace espalier::cli
