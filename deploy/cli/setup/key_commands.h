#pragma once

namespace CLI {
class App;
}

namespace espalier::cli {

// Adds `keys make|rotate|revoke|list` and `token make|revoke|list`, which work on the controller's
// folder of keys. A command sets exit_code when it has run: 0 done, 1 refused or failed, 2 bad
// input. app and exit_code must outlive the parsing.
void AddKeyCommands(CLI::App& app, int& exit_code);

}  // namespace espalier::cli
