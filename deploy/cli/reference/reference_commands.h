#pragma once

namespace CLI {
class App;
}

namespace espalier::cli {

// `reference`, which writes documents and completion from the commands of `app`, and `complete`,
// which the completion asks. `complete` is hidden, and ends with 0 whatever happens. app and
// exit_code must outlive the parsing.
void AddReferenceCommands(CLI::App& app, int& exit_code);

}  // namespace espalier::cli
