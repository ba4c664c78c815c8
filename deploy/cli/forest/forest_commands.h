#pragma once

#include "collective/forest/allreduce/allreduce_proof.h"

namespace CLI {
class App;
}

namespace espalier::forest {

// `forest` (makes one from a topology file), `forest verify` and `forest show`. Sets exit_code
// when a command has run: 0 done, 1 refused, failed or interrupted, 2 bad usage or bad input.
// solver is for `--prove`. app and exit_code must outlive the parsing.
void AddForestCommands(CLI::App& app, int& exit_code, LinearSolver solver);

}  // namespace espalier::forest
