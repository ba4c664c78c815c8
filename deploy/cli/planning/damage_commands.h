#pragma once

namespace CLI {
class App;
}

namespace espalier::cli {

// Adds `damage` to the command `simulate`: what path sets are worth where a link is dead, slow or
// dies (controller/offline/damage). Contract: as AddSimulateCommands.
void AddDamageSimulation(CLI::App& simulate, int& exit_code);

}  // namespace espalier::cli
