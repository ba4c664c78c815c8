#include "common/files/trusted_files.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/files/file.h"

namespace espalier::io {
namespace {

Result<std::string> ReadUnlessMode(const std::string& path, mode_t forbidden,
                                   const std::string& trouble, const std::string& remedy) {
  // Checks the opened file, as the path could lead to another one a moment later.
  return ReadFile(path, [&](const struct stat& status) -> Result<void> {
    const auto refuse = [&](const std::string& why, const std::string& command) {
      return Fail(ErrorCode::kPermissionDenied,
                  fmt::format("{}: {} ({} {})", path, why, command, path));
    };
    if (status.st_uid != 0 && status.st_uid != ::geteuid()) {
      return refuse(
          fmt::format("the file belongs to user {}, who can {} it", status.st_uid, trouble),
          "chown root");
    }
    if ((status.st_mode & forbidden) != 0) {
      return refuse(fmt::format("other users can {} the file", trouble), "chmod " + remedy);
    }
    return {};
  });
}

}  // namespace

Result<std::string> ReadSecretFile(const std::string& path) {
  return ReadUnlessMode(path, S_IRWXG | S_IRWXO, "read", "600");
}

Result<std::string> ReadTrustedFile(const std::string& path) {
  return ReadUnlessMode(path, S_IWGRP | S_IWOTH, "change", "go-w");
}

}  // namespace espalier::io
