#include "deploy/lab/lab_holder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/close_range.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "common/os/os_error.h"
#include "deploy/lab/frr.h"
#include "deploy/lab/lab_scripts.h"
#include "deploy/lab/namespaces.h"

namespace espalier::lab {
namespace {

constexpr int kStatusFd = 3;
constexpr int kGoFd = 4;

Result<void> WriteText(const std::string& path, const std::string& text) {
  const UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
  if (!file || ::write(file.get(), text.data(), text.size()) < 0) {
    return FailErrno(path, errno);
  }
  return {};
}

tl::unexpected<Error> FailNamespaces(int error) {
  return Fail(
      error == EPERM || error == EACCES ? ErrorCode::kPermissionDenied : ErrorCode::kUnsupported,
      fmt::format("this machine does not allow namespaces here: {} (run as root, or allow user "
                  "namespaces: sysctl kernel.unprivileged_userns_clone, "
                  "kernel.apparmor_restrict_unprivileged_userns, user.max_user_namespaces, "
                  "or the container's seccomp profile)",
                  std::generic_category().message(error)));
}

Result<void> EnterUserNamespace() {
  const uid_t uid = ::geteuid();
  const gid_t gid = ::getegid();
  if (::unshare(CLONE_NEWUSER) != 0) return FailNamespaces(errno);
  for (const auto& [file, text] : {std::pair<std::string, std::string>("setgroups", "deny"),
                                   {"uid_map", fmt::format("0 {} 1", uid)},
                                   {"gid_map", fmt::format("0 {} 1", gid)}}) {
    if (Result<void> written = WriteText("/proc/self/" + file, text); !written) return written;
  }
  return {};
}

Result<void> LeaveOldNamespaces() {
  constexpr int kOwn = CLONE_NEWNS | CLONE_NEWNET;
  if (::geteuid() == 0 && ::unshare(kOwn) == 0) return {};
  if (Result<void> user = EnterUserNamespace(); !user) return user;
  if (::unshare(kOwn) != 0) return FailNamespaces(errno);
  return {};
}

// Mounts a separate /run for the lab, so that the `ip netns` names of several labs do not collide.
// The user's runtime folder, which may contain the lab's files, stays visible.
Result<void> CoverRun() {
  if (::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) {
    return FailErrno("making mounts private", errno);
  }
  const char* runtime = std::getenv("XDG_RUNTIME_DIR");
  const bool keep = runtime != nullptr && std::string_view(runtime).substr(0, 5) == "/run/";
  const UniqueFd old(keep ? ::open(runtime, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1);
  if (::mount("tmpfs", "/run", "tmpfs", MS_NOSUID | MS_NODEV, "mode=755") != 0) {
    return FailErrno("mounting a tmpfs on /run", errno);
  }
  std::error_code error;
  std::filesystem::create_directories(kNetnsFolder, error);
  if (!error)
    std::filesystem::create_directories("/run/espalier", error);  // for the agents' sockets
  if (!error && old) {
    std::filesystem::create_directories(runtime, error);
    const std::string source = fmt::format("/proc/self/fd/{}", old.get());
    if (::mount(source.c_str(), runtime, "none", MS_BIND | MS_REC, nullptr) != 0) {
      return FailErrno(fmt::format("binding {}", runtime), errno);
    }
  }
  if (error) return FailErrno("creating folders in /run", error.value());
  return {};
}

Result<void> MakeNodes(const LabLayout& layout) {
  const UniqueFd home(::open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC));
  if (!home) return FailErrno("/proc/self/ns/net", errno);
  for (const LabNode& node : layout.nodes()) {
    if (Result<void> made = CreateNetworkNamespace(node.name); !made) return made;
    for (const Sysctl& sysctl : SysctlsOf(layout, node)) {
      if (Result<void> set = WriteSysctl(sysctl.key, sysctl.value); !set) return set;
    }
  }
  if (::setns(home.get(), CLONE_NEWNET) != 0) return FailErrno("setns", errno);
  return {};
}

Result<void> MakeLab(const LabLayout& layout, const std::string& token) {
  if (Result<void> left = LeaveOldNamespaces(); !left) return left;
  // A change of credentials has made the process unreadable for its own user.
  ::prctl(PR_SET_DUMPABLE, 1);
  if (layout.options().die_with_caller) ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (Result<void> covered = CoverRun(); !covered) return covered;
  if (layout.options().routing == Routing::kFrr) {
    if (Result<void> covered = CoverFrrAccounts(); !covered) return covered;
  }
  if (Result<void> marked = WriteText(kTokenFile, token + "\n"); !marked) return marked;
  return MakeNodes(layout);
}

void Report(const Result<void>& result) {
  const std::string text =
      result ? fmt::format("{} ok", ::getpid())
             : fmt::format("{} {}{}", ::getpid(), static_cast<int>(result.error().code),
                           " " + result.error().message);
  if (::write(kStatusFd, text.data(), text.size()) < 0) ::_exit(1);
  ::close(kStatusFd);
}

// Closes all descriptors of the caller except the two pipes, so that a process that waits for the
// end of the caller's output does not wait for the lab.
void MoveDescriptors(int status, int go) {
  const int safe_status = ::fcntl(status, F_DUPFD, 10);
  const int safe_go = ::fcntl(go, F_DUPFD, 10);
  const int null = ::open("/dev/null", O_RDWR);
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::dup2(null, fd);
  ::dup2(safe_status, kStatusFd);
  ::dup2(safe_go, kGoFd);
  ::close_range(kGoFd + 1, ~0U, 0);
}

void WaitForTheEnd(const sigset_t& ends) {
  char byte = 0;
  if (::read(kGoFd, &byte, 1) != 1) return;  // the starter failed and dropped this process
  ::close(kGoFd);
  int signal = 0;
  ::sigwait(&ends, &signal);
}

[[noreturn]] void HolderMain(const LabLayout& layout, const std::string& folder,
                             const std::string& token, int status, int go, pid_t starter) {
  ::setsid();
  sigset_t ends;
  ::sigemptyset(&ends);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) ::sigaddset(&ends, signal);
  ::sigprocmask(SIG_BLOCK, &ends, nullptr);
  MoveDescriptors(status, go);
  const Result<void> made = MakeLab(layout, token);
  Report(made);
  const bool orphan = layout.options().die_with_caller && ::getppid() != starter;
  if (made && !orphan) WaitForTheEnd(ends);
  SignalProcessesOfLab(token, SIGKILL, 0);
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
  ::_exit(0);
}

struct Pipe {
  UniqueFd read;
  UniqueFd write;
};

Result<Pipe> MakePipe() {
  std::array<int, 2> fds{};
  if (::pipe2(fds.data(), O_CLOEXEC) != 0) return FailErrno("pipe", errno);
  return Pipe{UniqueFd(fds[0]), UniqueFd(fds[1])};
}

std::string ReadStatus(int fd) {
  std::string text;
  std::array<char, 4096> buffer{};
  for (ssize_t n; (n = ::read(fd, buffer.data(), buffer.size())) != 0;) {
    if (n < 0 && errno != EINTR) break;
    if (n > 0) text.append(buffer.data(), static_cast<std::size_t>(n));
  }
  return text;
}

// Parses "PID ok" or "PID CODE MESSAGE".
Result<pid_t> ParseStatus(const std::string& text) {
  pid_t pid = 0;
  int code = 0;
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, pid);
  if (parsed.ec != std::errc() || parsed.ptr == end) {
    return Fail(ErrorCode::kInternal, "the lab's process ended while it was starting");
  }
  const auto coded = std::from_chars(parsed.ptr + 1, end, code);
  if (coded.ec != std::errc()) return pid;
  return Fail(static_cast<ErrorCode>(code), std::string(coded.ptr + 1, end));
}

}  // namespace

Result<LabHolder> LabHolder::Start(const LabLayout& layout, const std::string& folder,
                                   const std::string& token) {
  Result<Pipe> status = MakePipe();
  if (!status) return Propagate(status);
  Result<Pipe> go = MakePipe();
  if (!go) return Propagate(go);
  const pid_t starter = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) return FailErrno("fork", errno);
  if (child == 0) {
    const pid_t holder = layout.options().die_with_caller ? 0 : ::fork();
    if (holder != 0) ::_exit(holder < 0 ? 1 : 0);
    HolderMain(layout, folder, token, status->write.get(), go->read.get(), starter);
  }
  if (!layout.options().die_with_caller) ::waitpid(child, nullptr, 0);
  status->write.Close();
  Result<pid_t> pid = ParseStatus(ReadStatus(status->read.get()));
  if (!pid) return Propagate(pid);
  return LabHolder(*pid, std::move(go->write));
}

void LabHolder::Keep() {
  const char byte = 1;
  // If the holder is gone already, the next use of the lab fails.
  if (::write(go_.get(), &byte, 1) != 1) return;
  go_.Close();
}

}  // namespace espalier::lab
