#pragma once

#include <cstddef>
#include <string>

#include "collective/runtime/calls/medium.h"
#include "common/base/result.h"
#include "deploy/cli/bench/bench_run.h"

namespace CLI {
class App;
}

namespace espalier::runtime {

struct ProgramRunRequest {
  std::string file;
  Medium medium = Medium::kShared;
  std::size_t bytes = 1 << 20;  // of the data of all ranks together, as files count it
  int repetitions = 9;
};

// Verifies the program of a file and runs it between processes of this machine, as many as it has
// ranks, with data that is checked. Forks, as RunBench does.
// Errors: those of ReadProgramFile; kFailedPrecondition for a program that is not right;
// kUnsupported for one of a custom collective (nothing says what would be right), or that does not
// serve calls of that size; those of RunBench.
Result<BenchRow> RunProgramFile(const ProgramRunRequest& request);

// `program run`, beside the other commands of AddProgramCommands. Exit codes: as theirs, and 1
// where results were wrong.
void AddProgramRunCommand(CLI::App& app, int& exit_code);

}  // namespace espalier::runtime
