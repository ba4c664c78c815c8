#pragma once

namespace CLI {
class App;
}

namespace espalier::offline {

// Adds the options of the program prediction_study to its command: it replays many kinds of jobs
// with precomputed starts and without, and prints one table. Its exit code goes to `exit_code`,
// which must outlive the command.
void AddPredictionOptions(CLI::App& command, int& exit_code);

}  // namespace espalier::offline
