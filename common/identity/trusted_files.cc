#include "common/identity/trusted_files.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include "common/io/json.h"

namespace espalier::identity {
namespace {

Result<std::string> ReadUnlessMode(const std::string& path, mode_t forbidden,
                                   const std::string& trouble, const std::string& remedy) {
  Result<std::string> text = io::ReadFile(path);
  if (!text) return text;
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0 && (status.st_mode & forbidden) == 0) return text;
  return Fail(ErrorCode::kPermissionDenied,
              fmt::format("{}: other users can {} it (chmod {} {})", path, trouble, remedy, path));
}

}  // namespace

Result<std::string> ReadSecretFile(const std::string& path) {
  return ReadUnlessMode(path, S_IRWXG | S_IRWXO, "read", "600");
}

Result<std::string> ReadTrustedFile(const std::string& path) {
  return ReadUnlessMode(path, S_IWGRP | S_IWOTH, "change", "go-w");
}

}  // namespace espalier::identity
