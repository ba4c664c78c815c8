#pragma once

namespace CLI {
class App;
}

namespace espalier::cli {

// Adds `simulate --topology FILE --jobs DIR|FILE` (training jobs under one or several algorithms of
// path assignment), `simulate paper --jobs DIR` (the evaluation of Routing for Large ML Models:
// quality table and figures 4 to 8) and `simulate cluster`. A command sets
// exit_code when it has run: 0 done, 1 failed or interrupted, 2 bad usage or input. app and
// exit_code must outlive the parsing.
void AddSimulateCommands(CLI::App& app, int& exit_code);

}  // namespace espalier::cli
