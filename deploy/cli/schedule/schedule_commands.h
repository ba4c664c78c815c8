#pragma once

namespace CLI {
class App;
}

namespace espalier::synthesis {

// Adds `schedule make` and `schedule verify` to the tool. A command sets exit_code when it has run:
// 0 done, 1 the schedule is not valid or the file cannot be written, 2 bad input. app and exit_code
// must outlive the parsing.
void AddScheduleCommands(CLI::App& app, int& exit_code);

}  // namespace espalier::synthesis
