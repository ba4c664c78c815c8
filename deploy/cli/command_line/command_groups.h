#pragma once

namespace CLI {
class App;
}

namespace espalier::cli {

// Arranges the commands of the tool by purpose in its --help: commands that look, act or plan, and
// those for keys and labs. A command that this module does not know stays in a list of its own,
// which a test finds.
void GroupCommands(CLI::App& app);

}  // namespace espalier::cli
