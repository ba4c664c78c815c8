#include "deploy/lab/namespaces.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <system_error>
#include <utility>

#include "common/os/os_error.h"

namespace espalier::lab {
namespace {

Result<UniqueFd> OpenNamespace(pid_t pid, const char* kind) {
  const std::string path = fmt::format("/proc/{}/ns/{}", pid, kind);
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) {
    const int error = errno;
    if (error == ENOENT) {
      return Fail(ErrorCode::kUnavailable, fmt::format("the lab's process {} is gone", pid));
    }
    return FailErrno(path, error);
  }
  return fd;
}

bool IsOwnUserNamespace(int fd) {
  struct stat theirs {};
  struct stat ours {};
  return ::fstat(fd, &theirs) == 0 && ::stat("/proc/self/ns/user", &ours) == 0 &&
         theirs.st_ino == ours.st_ino && theirs.st_dev == ours.st_dev;
}

}  // namespace

Result<NamespaceContext> NamespaceContext::Open(pid_t holder) {
  NamespaceContext door;
  Result<UniqueFd> user = OpenNamespace(holder, "user");
  if (!user) return Propagate(user);
  if (!IsOwnUserNamespace(user->get())) door.user_ = std::move(*user);
  Result<UniqueFd> mount = OpenNamespace(holder, "mnt");
  if (!mount) return Propagate(mount);
  door.mount_ = std::move(*mount);
  Result<UniqueFd> net = OpenNamespace(holder, "net");
  if (!net) return Propagate(net);
  door.net_ = std::move(*net);
  return door;
}

int NamespaceContext::Enter(const char* node) const noexcept {
  std::array<char, PATH_MAX> folder{};
  const bool keep_folder = ::getcwd(folder.data(), folder.size()) != nullptr;
  if (user_ && ::setns(user_.get(), CLONE_NEWUSER) != 0) return errno;
  if (::setns(mount_.get(), CLONE_NEWNS) != 0) return errno;
  if (node == nullptr) {
    if (::setns(net_.get(), CLONE_NEWNET) != 0) return errno;
  } else {
    std::array<char, PATH_MAX> path{};
    const auto end = fmt::format_to_n(path.data(), path.size() - 1, "{}/{}", kNetnsFolder, node);
    *end.out = '\0';
    const int fd = ::open(path.data(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) return errno;
    const int result = ::setns(fd, CLONE_NEWNET) == 0 ? 0 : errno;
    ::close(fd);
    if (result != 0) return result;
  }
  // Changes to "/" if the lab does not have the folder (under /run).
  if (!keep_folder || ::chdir(folder.data()) != 0) return ::chdir("/") == 0 ? 0 : errno;
  return 0;
}

Result<void> CreateNetworkNamespace(const std::string& node) {
  const std::string path = fmt::format("{}/{}", kNetnsFolder, node);
  const UniqueFd mount_point(::open(path.c_str(), O_RDONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0444));
  if (!mount_point) return FailErrno(path, errno);
  if (::unshare(CLONE_NEWNET) != 0) return FailErrno("creating a network namespace", errno);
  if (::mount("/proc/self/ns/net", path.c_str(), "none", MS_BIND, nullptr) != 0) {
    return FailErrno("binding " + path, errno);
  }
  return {};
}

Result<void> WriteSysctl(const std::string& key, const std::string& value) {
  const std::string path = "/proc/sys/" + key;
  const UniqueFd file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!file) {
    const int error = errno;
    if (error == ENOENT) {
      return Fail(ErrorCode::kUnsupported,
                  fmt::format("this kernel has no {} (use a newer kernel: docs/lab.md)", path));
    }
    return FailErrno(path, error);
  }
  if (::write(file.get(), value.data(), value.size()) < 0) {
    return FailErrno(fmt::format("setting {} = {}", path, value), errno);
  }
  return {};
}

int SignalProcessesOfLab(const std::string& token, int signal, pid_t spare) {
  int count = 0;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", ignored)) {
    const std::string name = entry.path().filename();
    char* end = nullptr;
    const long pid = std::strtol(name.c_str(), &end, 10);
    if (*end != '\0' || pid <= 1 || pid == ::getpid() || pid == spare) continue;
    std::ifstream file(fmt::format("/proc/{}/root{}", pid, kTokenFile));
    std::string found;
    if (!std::getline(file, found) || found != token) continue;
    if (::kill(static_cast<pid_t>(pid), signal) == 0) ++count;
  }
  return count;
}

}  // namespace espalier::lab
