#pragma once

namespace CLI {
class App;
}

namespace espalier::cli {

// Adds `topology make KIND`, `topology import FORMAT FILE`, `topology check FILE` and `topology
// diff A B`. A command sets exit_code when it has run: 0 done, 1 the file cannot be written, 2 bad
// input. app and exit_code must outlive the parsing.
void AddTopologyCommands(CLI::App& app, int& exit_code);

}  // namespace espalier::cli
