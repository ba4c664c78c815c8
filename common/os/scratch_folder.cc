#include "common/os/scratch_folder.h"

#include <fmt/format.h>
#include <stdlib.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "common/os/os_error.h"

namespace espalier {

Result<ScratchFolder> ScratchFolder::Make(std::string_view name) {
  std::error_code error;
  const std::filesystem::path parent = std::filesystem::temp_directory_path(error);
  if (error) return FailErrno("cannot find the folder for temporary files", error.value());
  std::string path = (parent / fmt::format("espalier-{}-XXXXXX", name)).string();
  if (::mkdtemp(path.data()) == nullptr) {
    return FailErrno(fmt::format("cannot create the folder {}", path), errno);
  }
  return ScratchFolder(std::move(path));
}

ScratchFolder::ScratchFolder(ScratchFolder&& other) noexcept
    : path_(std::exchange(other.path_, {})) {}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

}  // namespace espalier
