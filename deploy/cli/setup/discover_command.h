#pragma once

namespace CLI {
class App;
}

namespace espalier::cli {

// Adds `discover` to the group `topology`: has the agents of a running controller discover the
// fabric, and writes a topology file of what they find.
void AddDiscoverCommand(CLI::App& group, int& exit_code);

}  // namespace espalier::cli
