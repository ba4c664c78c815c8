#pragma once

namespace CLI {
class App;
}

namespace espalier::cli {

// `assign --topology FILE --flows FILE`: paths for the flows of a file. Sets exit_code when the
// command has run: 0 done (also where some flows have no path: that is reported), 1 failed, 2 bad
// usage or input. app and exit_code must outlive the parsing.
void AddAssignCommand(CLI::App& app, int& exit_code);

}  // namespace espalier::cli
