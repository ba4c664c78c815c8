#pragma once

namespace CLI {
class App;
}

namespace espalier::order {

// Adds `job advise` to the group of job commands: which order of a job's ranks keeps how many bytes
// inside hosts, leaves and pods. Works on files alone. Exit codes: 0, and 2 for bad input.
void AddJobAdvise(CLI::App& jobs, int& exit_code);

}  // namespace espalier::order
