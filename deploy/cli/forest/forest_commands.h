#pragma once

#include "collective/forest/allreduce/allreduce_proof.h"

namespace CLI {
class App;
}

namespace espalier::forest {

// Adds `forest` (which makes a forest for a topology file), `forest verify` and `forest show`. A
// command sets exit_code when it has run: 0 done, 1 refused, failed or interrupted, 2 bad usage or
// bad input. `--prove` uses the solver. app and exit_code must outlive the parsing.
void AddForestCommands(CLI::App& app, int& exit_code, LinearSolver solver);

}  // namespace espalier::forest
