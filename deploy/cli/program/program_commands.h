#pragma once

namespace CLI {
class App;
}

namespace espalier::program {

// Adds `program make`, `program verify`, `program show` and `program convert`. A command sets
// exit_code when it has run: 0 done, 1 refused or failed, 2 bad usage or bad input. app and
// exit_code must outlive the parsing.
void AddProgramCommands(CLI::App& app, int& exit_code);

}  // namespace espalier::program
