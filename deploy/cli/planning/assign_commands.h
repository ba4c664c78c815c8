#pragma once

namespace CLI {
class App;
}

namespace espalier::cli {

// Adds `assign --topology FILE --flows FILE`, which assigns paths to the flows of a file. The
// command sets exit_code when it has run: 0 done (flows without a usable path are reported on
// standard error), 1 failed, 2 bad usage or input. app and exit_code must outlive the parsing.
void AddAssignCommand(CLI::App& app, int& exit_code);

}  // namespace espalier::cli
