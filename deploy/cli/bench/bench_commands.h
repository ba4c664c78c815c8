#pragma once

namespace CLI {
class App;
}

namespace espalier::runtime {

// `bench allreduce|allgather|reduce_scatter|broadcast|reduce|alltoall|barrier`. Sets exit_code when
// a command has run: 0 done, 1 failed or results were wrong, 2 bad usage. app and exit_code must
// outlive the parsing.
void AddBenchCommands(CLI::App& app, int& exit_code);

}  // namespace espalier::runtime
