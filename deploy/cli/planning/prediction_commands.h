#pragma once

namespace CLI {
class App;
}

namespace espalier::cli {

// Adds `prediction` to the command `simulate`: replays many kinds of jobs with precomputed starts
// and without, and prints one table. Contract: as AddSimulateCommands.
void AddPredictionReplay(CLI::App& simulate, int& exit_code);

}  // namespace espalier::cli
