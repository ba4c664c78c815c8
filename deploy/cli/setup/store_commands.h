#pragma once

namespace CLI {
class App;
}

namespace espalier::cli {

// store backup|restore|check: on the controller's store file itself; backup and check do not mind
// a controller that runs. Sets exit_code when a command has run: 0 done, 1 refused or failed.
// app and exit_code must outlive the parsing.
void AddStoreCommands(CLI::App& app, int& exit_code);

}  // namespace espalier::cli
