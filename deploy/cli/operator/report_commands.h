#pragma once

namespace CLI {
class App;
}

namespace espalier::cli {

// Adds `report links`, which passes the lines of a telemetry feed to the controller, and
// `report schedule`, which declares what a job will start. Contract: as AddOperatorCommands.
void AddReportCommands(CLI::App& app, int& exit_code);

}  // namespace espalier::cli
