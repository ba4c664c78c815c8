#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "common/base/result.h"

namespace espalier {

// A new folder for temporary files that only this user can enter. It is removed, with all that is
// in it, when this object is destroyed.
class ScratchFolder {
 public:
  // The folder is espalier-NAME-XXXXXX in the system's folder for temporary files ($TMPDIR).
  // Errors: FailErrno.
  static Result<ScratchFolder> Make(std::string_view name);
  ScratchFolder(ScratchFolder&& other) noexcept;
  ScratchFolder& operator=(ScratchFolder&&) = delete;
  ~ScratchFolder();

  const std::string& path() const { return path_; }

 private:
  explicit ScratchFolder(std::string path) : path_(std::move(path)) {}

  std::string path_;  // empty: moved from
};

}  // namespace espalier
