#include "controller/offline/evaluation/solver.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>

#include "common/files/json.h"
#include "common/os/command.h"

namespace espalier::offline {
namespace {

constexpr int kMaxSeconds = 120;

// A temporary folder that is removed with this object.
class ScratchFolder {
 public:
  ScratchFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "espalier-ilp-XXXXXX").string();
    if (::mkdtemp(name.data()) != nullptr) path_ = name;
  }
  ~ScratchFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace

Result<std::string> SolveWithCbc(const std::string& program) {
  const ScratchFolder folder;
  if (folder.path().empty()) {
    return Fail(ErrorCode::kInternal,
                fmt::format("cannot create a temporary folder: {}", std::strerror(errno)));
  }
  const std::string model = folder.path() + "/program.lp";
  const std::string solution = folder.path() + "/solution";
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
