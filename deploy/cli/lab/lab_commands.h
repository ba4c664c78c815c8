#pragma once

#include <CLI/CLI.hpp>

namespace espalier::lab {

// Adds `lab up|down|list|exec|fail|restore|watch|counters|traffic|rdma` to a program's commands. A
// command sets exit_code when it has run: 0 done (also if there was nothing to do), 1 refused or
// failed, 2 bad input, or the exit code of the program of `lab exec` or `lab rdma`. `exit_code`
// must outlive the parsing.
void AddLabCommands(CLI::App& app, int& exit_code);

}  // namespace espalier::lab
