#pragma once

namespace CLI {
class App;
}

namespace espalier::cli {

// keys make|rotate|revoke|list and token make|revoke|list, on the controller's folder of keys.
// Sets exit_code when a command has run: 0 done, 1 refused or failed, 2 bad input.
// app and exit_code must outlive the parsing.
void AddKeyCommands(CLI::App& app, int& exit_code);

}  // namespace espalier::cli
