#pragma once

namespace CLI {
class App;
}

namespace espalier::cli {

// Parses the command line and runs the command that it names. `help COMMAND` is `COMMAND --help`.
// Returns the exit code: that of the command, which is in `exit_code`, or 2 for a command line that
// is not valid. Then says on standard error what is wrong and, for an unknown command, which one
// may be meant; with --json also on standard output, as {"error": {"code", "message", "remedy"}}.
int ParseAndRun(CLI::App& app, int argc, char** argv, int& exit_code);

}  // namespace espalier::cli
