#pragma once

namespace CLI {
class App;
}

namespace espalier::runtime {

// Adds `bench allreduce|allgather|reduce_scatter|broadcast|reduce|alltoall|barrier` and `bench
// fit`. A command sets exit_code when it has run: 0 done, 1 failed or results were wrong, 2 bad
// usage. app and exit_code must outlive the parsing.
void AddBenchCommands(CLI::App& app, int& exit_code);

}  // namespace espalier::runtime
