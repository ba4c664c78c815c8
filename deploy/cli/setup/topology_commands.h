#pragma once

namespace CLI {
class App;
}

namespace espalier::cli {

// `topology make KIND` (a topology file to standard output or -o FILE) and `topology check FILE`.
// Sets exit_code when a command has run: 0 done, 1 the file cannot be written, 2 bad input. app and
// exit_code must outlive the parsing.
void AddTopologyCommands(CLI::App& app, int& exit_code);

}  // namespace espalier::cli
