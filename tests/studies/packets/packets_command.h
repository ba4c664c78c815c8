#pragma once

namespace CLI {
class App;
}

namespace espalier::offline {

// Adds the options of the program packets_study to its command: a replay, packet by packet, of what
// `espalier assign|simulate --export ns3` wrote. Its exit code goes to `exit_code`, which must
// outlive the command.
void AddPacketsOptions(CLI::App& command, int& exit_code);

}  // namespace espalier::offline
