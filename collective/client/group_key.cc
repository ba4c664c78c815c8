#include "collective/client/group_key.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <system_error>

#include "common/base/unique_fd.h"
#include "common/base/users/job_key.h"

namespace espalier::client {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kAddressScheme = "tcp://";
constexpr const char* kFileName = "job.key";

std::optional<std::string> FromEnvironment(const char* name) {
  const char* const value = std::getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return value;
}

tl::unexpected<Error> FailOf(const std::string& path, const char* what) {
  const bool is_forbidden = errno == EACCES || errno == EPERM;
  return Fail(is_forbidden ? ErrorCode::kPermissionDenied : ErrorCode::kUnavailable,
              fmt::format("{}: cannot {} the job key: {}", path, what, std::strerror(errno)));
}

// Checks and reads the same open file, so that nobody can replace it in between.
Result<JobKey> ReadKeyFile(const std::string& path) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return FailOf(path, "read");
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) return FailOf(path, "read");
  if ((status.st_mode & 077) != 0) {
    return Fail(ErrorCode::kPermissionDenied,
                fmt::format("{}: other users than its owner can read or write it, and whoever has "
                            "a job's key can join the job (chmod 600 {})",
                            path, path));
  }
  char text[256];
  const ssize_t bytes = ::read(file.get(), text, sizeof(text));
  if (bytes < 0) return FailOf(path, "read");
  auto key = JobKey::Parse({text, static_cast<std::size_t>(bytes)});
  if (!key) key.error().message = fmt::format("{}: {}", path, key.error().message);
  return key;
}

// The first rank creates the key; linking a complete file makes it appear atomically.
Result<JobKey> KeyOfFolder(const fs::path& folder) {
  std::error_code code;
  const std::string path = folder / kFileName;
  if (!fs::exists(path, code)) {
    const std::string fresh = fmt::format("{}.{}.{}", path, ::getpid(), ::gettid());
    UniqueFd file(::open(fresh.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (!file) return FailOf(fresh, "write");
    const std::string text = JobKey::Draw().ToText() + '\n';
    const bool is_written =
        ::write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
    const bool is_named =
        is_written && (::link(fresh.c_str(), path.c_str()) == 0 || errno == EEXIST);
    auto failed = FailOf(path, "write");
    ::unlink(fresh.c_str());
    if (!is_named) return failed;
  }
  return ReadKeyFile(path);
}

}  // namespace

bool TrustsNetwork() { return FromEnvironment("ESPALIER_INSECURE_GROUPS") == "1"; }

Result<transport::GroupCredentials> FindMembership(const std::string& store,
                                                   runtime::Medium medium) {
  transport::GroupCredentials members = {.trusts_network = TrustsNetwork()};
  std::optional<Result<JobKey>> found;
  if (const auto path = FromEnvironment("ESPALIER_JOB_KEY_FILE")) {
    found = ReadKeyFile(*path);
  } else if (const auto text = FromEnvironment("ESPALIER_JOB_KEY")) {
    found = JobKey::Parse(*text);
    if (!*found) found->error().message = "ESPALIER_JOB_KEY: " + found->error().message;
  } else if (medium != runtime::Medium::kShared && !store.starts_with(kAddressScheme)) {
    found = KeyOfFolder(store);
  }
  if (!found) return members;
  if (!*found) return Propagate(*found);
  members.key = **found;
  return members;
}

}  // namespace espalier::client
