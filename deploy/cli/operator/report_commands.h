#pragma once

namespace CLI {
class App;
}

namespace espalier::cli {

// `report links`: hands a telemetry feed's lines to the controller; `report schedule`: what a job
// will start. As AddOperatorCommands.
void AddReportCommands(CLI::App& app, int& exit_code);

}  // namespace espalier::cli
