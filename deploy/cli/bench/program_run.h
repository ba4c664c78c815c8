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
  std::size_t bytes = 1 << 20;  // of the data of all ranks together, as program files count it
  int repetitions = 9;
};

// Verifies the program of a file, runs it between processes of this machine, one for each rank, and
// checks the results. Forks, as RunBench does.
// Errors: those of ReadAndVerify; kFailedPrecondition for an incorrect program; kUnsupported for
// a custom collective (there is no known result to compare with) or a program that does not serve
// calls of this size; those of RunBench.
Result<BenchRow> RunProgramFile(const ProgramRunRequest& request);

// Adds `program run` to the commands of AddProgramCommands. Exit codes: as theirs, and 1 for wrong
// results.
void AddProgramRunCommand(CLI::App& app, int& exit_code);

}  // namespace espalier::runtime
