#pragma once

namespace CLI {
class App;
}

namespace espalier::cli {

// Adds `cluster` to the command `simulate`: runs a scenario with the real controller and agents
// under virtual time (deploy/simulation). Exit code 1 also if the run violates an invariant.
// Contract: as AddSimulateCommands.
void AddClusterSimulation(CLI::App& simulate, int& exit_code);

}  // namespace espalier::cli
