#include "controller/offline/evaluation/solver.h"

#include <fmt/format.h>

#include <string>

#include "common/files/file.h"
#include "common/os/command.h"
#include "common/os/scratch_folder.h"

namespace espalier::offline {
namespace {

constexpr int kMaxSeconds = 120;

}  // namespace

Result<std::string> SolveWithCbc(const std::string& program) {
  const auto folder = ScratchFolder::Make("ilp");
  if (!folder) return tl::unexpected<Error>(folder.error());
  const std::string model = folder->path() + "/program.lp";
  const std::string solution = folder->path() + "/solution";
  if (auto written = io::WriteFileDurably(model, program); !written) return Propagate(written);
  const auto run = RunCommand({.argv = {"cbc", model, "seconds", fmt::format("{}", kMaxSeconds),
                                        "solve", "solution", solution}});
  if (!run && run.error().code == ErrorCode::kNotFound) {
    return Fail(
        ErrorCode::kUnsupported,
        "the algorithm ilp needs the solver cbc, which is not installed (install coinor-cbc)");
  }
  if (!run) return tl::unexpected<Error>(run.error());
  if (run->exit_code != 0) {
    return Fail(ErrorCode::kInternal,
                fmt::format("cbc ended with code {}: {}", run->exit_code, run->err.substr(0, 200)));
  }
  return io::ReadFile(solution);
}

}  // namespace espalier::offline
