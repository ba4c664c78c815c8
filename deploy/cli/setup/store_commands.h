#pragma once

namespace CLI {
class App;
}

namespace espalier::cli {

// Adds `store backup|restore|check`, which work on the controller's store file itself; backup and
// check also while the controller runs. A command sets exit_code when it has run: 0 done, 1 refused
// or failed.
// app and exit_code must outlive the parsing.
void AddStoreCommands(CLI::App& app, int& exit_code);

}  // namespace espalier::cli
