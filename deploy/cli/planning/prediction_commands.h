#pragma once

namespace CLI {
class App;
}

namespace espalier::cli {

// `simulate foresight`: jobs of many kinds with plans made ahead and without, as one table. As
// AddSimulateCommands, of whose command it is a part.
void AddPredictionReplay(CLI::App& simulate, int& exit_code);

}  // namespace espalier::cli
