#pragma once

#include <CLI/CLI.hpp>

#include "deploy/lab/lab.h"

namespace espalier::lab {

// Adds `espalier lab rdma`, which runs a program in the RDMA machine (docs/rdma.md).
void AddRdmaCommand(CLI::App& lab, int& exit_code);

// Prints the error of a command, if there is one, and returns its exit code.
int ExitCodeOf(const Result<void>& result);

}  // namespace espalier::lab
