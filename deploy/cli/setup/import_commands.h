#pragma once

#include <string>
#include <vector>

#include "common/base/result.h"
#include "controller/offline/imports/facts/cabling.h"

namespace CLI {
class App;
}

namespace espalier::cli {

// Reads the files of --with, each FORMAT=FILE.
Result<std::vector<imports::Cabling>> ReadOtherSources(const std::vector<std::string>& others);

// Adds `import FORMAT FILE...` to `topology`, with a command for each format of
// controller/offline/imports. A command writes the topology, and says on standard error what it
// assumes, leaves out and misses. It sets exit_code when it has run: 0 done, 1 the file cannot be
// written, 2 bad input. group and exit_code must outlive the parsing.
void AddImportCommands(CLI::App& group, int& exit_code);

}  // namespace espalier::cli
