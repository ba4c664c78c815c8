#pragma once

#include <CLI/CLI.hpp>

namespace espalier::lab {

// Adds `lab up|down|list|exec|fail|restore|watch|counters|traffic` to a program's commands. The
// command that was given runs during CLI11_PARSE and sets exit_code: 0 done (also when there was
// nothing to do), 1 refused or failed, 2 bad input, or what the program run by `lab exec` returned.
// `exit_code` must outlive the parsing.
void AddLabCommands(CLI::App& app, int& exit_code);

}  // namespace espalier::lab
