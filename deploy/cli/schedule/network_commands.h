#pragma once

namespace CLI {
class App;
}

namespace espalier::synthesis {

// Adds `topology find`, and the families and expansions of direct-connect networks to `topology
// make`. `topology` is the group of these commands. A command sets exit_code when it has run: 0
// done, 1 the file cannot be written, 2 bad input or no construction is known. `topology` and
// exit_code must outlive the parsing.
void AddNetworkCommands(CLI::App& topology, int& exit_code);

}  // namespace espalier::synthesis
