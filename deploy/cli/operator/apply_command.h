#pragma once

#include <CLI/CLI.hpp>

namespace espalier::cli {

// Adds `topology apply FILE`, which makes a running controller take over another topology.
void AddTopologyApply(CLI::App& group, int& exit_code);

}  // namespace espalier::cli
