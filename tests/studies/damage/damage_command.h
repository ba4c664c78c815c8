#pragma once

namespace CLI {
class App;
}

namespace espalier::offline {

// Adds the options of the program damage_study to its command: what path sets are worth where a
// link is dead, slow or dies. Its exit code goes to `exit_code`, which must outlive the command.
void AddDamageOptions(CLI::App& command, int& exit_code);

}  // namespace espalier::offline
