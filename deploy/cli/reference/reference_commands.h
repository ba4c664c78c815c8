#pragma once

namespace CLI {
class App;
}

namespace espalier::cli {

// Adds `reference`, which writes documents and completion scripts for the commands of `app`, and
// the hidden `complete`, which the scripts call and which always exits with 0. app and exit_code
// must outlive the parsing.
void AddReferenceCommands(CLI::App& app, int& exit_code);

}  // namespace espalier::cli
