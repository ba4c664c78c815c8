#include "common/os/command.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <system_error>

#include "common/os/os_error.h"

namespace espalier {
namespace {

// The user's PATH and the folders of ip, tc and nft, which may not be in it.
std::string SearchPath() {
  const char* path = std::getenv("PATH");
  return fmt::format("{}:/usr/local/sbin:/usr/sbin:/sbin",
                     path == nullptr ? "/usr/bin:/bin" : path);
}

Result<std::string> FindProgram(const std::string& name) {
  if (name.find('/') != std::string::npos) return name;
  const std::string path = SearchPath();
  for (std::size_t begin = 0; begin <= path.size();) {
    const std::size_t end = std::min(path.find(':', begin), path.size());
    const std::string candidate = path.substr(begin, end - begin) + "/" + name;
    if (::access(candidate.c_str(), X_OK) == 0) return candidate;
    begin = end + 1;
  }
  const bool network_tool = name == "ip" || name == "tc";
  return Fail(ErrorCode::kNotFound, fmt::format("{}: no such program{}", name,
                                                network_tool    ? " (install iproute2)"
                                                : name == "nft" ? " (install nftables)"
                                                                : ""));
}

// Everything that execve needs, prepared before fork, as nothing may be allocated after it.
struct Prepared {
  std::string program;
  std::vector<std::string> environment;
  std::vector<char*> argv;
  std::vector<char*> envp;
  const ExecutionContext* place = nullptr;
  const char* node = nullptr;
  bool die_with_parent = false;
  bool has_own_group = false;
};

Result<Prepared> Prepare(const Command& command) {
  Prepared prepared;
  Result<std::string> program = FindProgram(command.argv.at(0));
  if (!program) return Propagate(program);
  prepared.program = std::move(*program);
  for (const std::string& argument : command.argv) {
    prepared.argv.push_back(const_cast<char*>(argument.c_str()));
  }
  prepared.argv.push_back(nullptr);
  const auto is_replaced = [&](std::string_view entry) {
    for (const auto& [key, value] : command.environment) {
      if (entry.substr(0, key.size() + 1) == key + "=") return true;
    }
    return entry.substr(0, 5) == "PATH=";
  };
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (!is_replaced(*entry)) prepared.environment.emplace_back(*entry);
  }
  prepared.environment.push_back("PATH=" + SearchPath());
  for (const auto& [key, value] : command.environment) {
    prepared.environment.push_back(fmt::format("{}={}", key, value));
  }
  for (std::string& entry : prepared.environment) prepared.envp.push_back(entry.data());
  prepared.envp.push_back(nullptr);
  prepared.place = command.place;
  prepared.node = command.node.empty() ? nullptr : command.node.c_str();
  return prepared;
}

// Enters the place and executes the program; returns an errno value on failure. Async-signal-safe.
int EnterAndExec(const Prepared& prepared) noexcept {
  if (prepared.place != nullptr) {
    if (const int error = prepared.place->Enter(prepared.node); error != 0) return error;
  }
  // After Enter, as a change of credentials clears it.
  if (prepared.die_with_parent) ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::execve(prepared.program.c_str(), prepared.argv.data(), prepared.envp.data());
  return errno;
}

// The exit code of a child that could not start; it writes its errno value to standard error.
constexpr int kCannotStart = 127;

[[noreturn]] void ChildMain(const Prepared& prepared, int in, int out, int err) noexcept {
  if (prepared.has_own_group) ::setpgid(0, 0);
  ::dup2(in, STDIN_FILENO);
  ::dup2(out, STDOUT_FILENO);
  if (err >= 0) ::dup2(err, STDERR_FILENO);
  const int error = EnterAndExec(prepared);
  const char* reason = ::strerrordesc_np(error);
  if (reason != nullptr &&
      ::write(STDERR_FILENO, reason, std::char_traits<char>::length(reason)) < 0) {
    ::_exit(kCannotStart);
  }
  ::_exit(kCannotStart);
}

std::string ReadAll(int fd) {
  std::string text;
  std::array<char, 65536> buffer{};
  ::lseek(fd, 0, SEEK_SET);
  for (ssize_t n; (n = ::read(fd, buffer.data(), buffer.size())) > 0;) {
    text.append(buffer.data(), static_cast<std::size_t>(n));
  }
  return text;
}

int ExitCode(int status) {
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

int WaitFor(pid_t pid) {
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0) {
    if (errno != EINTR) return -1;
  }
  return ExitCode(status);
}

Result<UniqueFd> MemoryFile(std::string_view text) {
  UniqueFd fd(::memfd_create("espalier-command", MFD_CLOEXEC));
  if (!fd) return FailErrno("memfd_create", errno);
  while (!text.empty()) {
    const ssize_t n = ::write(fd.get(), text.data(), text.size());
    if (n < 0) return FailErrno("writing to a memory file", errno);
    text.remove_prefix(static_cast<std::size_t>(n));
  }
  ::lseek(fd.get(), 0, SEEK_SET);
  return fd;
}

// The reading end of a pipe, and what has arrived there.
struct PipeText {
  UniqueFd fd;
  std::string text;

  // Reads what has arrived, or somewhat more than `most_bytes`. Closes the pipe at its end.
  void Read(std::size_t most_bytes) {
    std::array<char, 65536> buffer{};
    while (fd && text.size() <= most_bytes) {
      const ssize_t n = ::read(fd.get(), buffer.data(), buffer.size());
      if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
      if (n <= 0) return fd.Close();
      text.append(buffer.data(), static_cast<std::size_t>(n));
    }
  }
};

// A process and its group; both are killed with this object.
class ProcessGroup {
 public:
  explicit ProcessGroup(pid_t pid) : pid_(pid) {
    ::setpgid(pid, pid);  // as the child does: whichever of them is first
  }
  ProcessGroup(const ProcessGroup&) = delete;
  ProcessGroup& operator=(const ProcessGroup&) = delete;
  ~ProcessGroup() { KillAndWait(); }

  // Returns the exit code. The process must be waited for after its group is killed, as its number
  // is free then.
  int KillAndWait() {
    if (pid_ < 0) return 0;
    ::kill(-pid_, SIGKILL);
    return WaitFor(std::exchange(pid_, -1));
  }

 private:
  pid_t pid_;
};

std::string CommandText(const Command& command) {
  std::string text = command.node.empty() ? "" : command.node + ": ";
  for (const std::string& argument : command.argv) text += argument + " ";
  text.pop_back();
  return text;
}

}  // namespace

Result<CommandOutput> RunCommand(const Command& command, std::string_view input) {
  Result<Prepared> prepared = Prepare(command);
  if (!prepared) return Propagate(prepared);
  // Memory files instead of pipes, as a full pipe could block either side.
  Result<UniqueFd> in = MemoryFile(input);
  if (!in) return Propagate(in);
  Result<UniqueFd> out = MemoryFile("");
  if (!out) return Propagate(out);
  Result<UniqueFd> err = MemoryFile("");
  if (!err) return Propagate(err);
  const pid_t pid = ::fork();
  if (pid < 0) return FailErrno("fork", errno);
  if (pid == 0) ChildMain(*prepared, in->get(), out->get(), err->get());
  return CommandOutput{WaitFor(pid), ReadAll(out->get()), ReadAll(err->get())};
}

Result<std::string> RunOrFail(const Command& command, std::string_view input) {
  Result<CommandOutput> output = RunCommand(command, input);
  if (!output) return Propagate(output);
  if (output->exit_code != 0) {
    return Fail(ErrorCode::kInternal, fmt::format("{}: exit code {}: {}", CommandText(command),
                                                  output->exit_code, output->err));
  }
  return std::move(output->out);
}

Result<CommandOutput> RunWithin(const CommandLimits& limits, const Command& command) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point deadline = Clock::now() + limits.timeout;
  Result<Prepared> prepared = Prepare(command);
  if (!prepared) return Propagate(prepared);
  prepared->die_with_parent = prepared->has_own_group = true;
  Result<UniqueFd> in = MemoryFile("");
  if (!in) return Propagate(in);
  PipeText out;
  PipeText err;
  std::array<UniqueFd, 2> write_ends;
  for (std::size_t i = 0; i < write_ends.size(); ++i) {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) return FailErrno("pipe", errno);
    (i == 0 ? out : err).fd = UniqueFd(ends[0]);
    write_ends[i] = UniqueFd(ends[1]);
    ::fcntl(ends[0], F_SETFL, O_NONBLOCK);  // of the reading end alone
  }
  const pid_t pid = ::fork();
  if (pid < 0) return FailErrno("fork", errno);
  if (pid == 0) ChildMain(*prepared, in->get(), write_ends[0].get(), write_ends[1].get());
  ProcessGroup group(pid);
  for (UniqueFd& end : write_ends) end.Close();
  // The header of pidfd_open is not made for C++ in glibc 2.36.
  const UniqueFd ended(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!ended) return FailErrno("pidfd_open", errno);
  for (bool has_ended = false; !has_ended;) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) {
      return Fail(ErrorCode::kUnavailable,
                  fmt::format("{}: not done after {} ms", command.argv[0], limits.timeout.count()));
    }
    std::array<pollfd, 3> events = {
        {{out.fd.get(), POLLIN, 0}, {err.fd.get(), POLLIN, 0}, {ended.get(), POLLIN, 0}}};
    ::poll(events.data(), events.size(), static_cast<int>(left));
    has_ended = events[2].revents != 0;  // before the last read: what it wrote has arrived
    out.Read(limits.most_bytes);
    err.Read(limits.most_bytes);
    if (std::max(out.text.size(), err.text.size()) > limits.most_bytes) {
      return Fail(ErrorCode::kResourceExhausted, fmt::format("{}: it prints more than {} bytes",
                                                             command.argv[0], limits.most_bytes));
    }
  }
  return CommandOutput{group.KillAndWait(), std::move(out.text), std::move(err.text)};
}

Result<ChildProcess> ChildProcess::Start(const Command& command) {
  Result<Prepared> prepared = Prepare(command);
  if (!prepared) return Propagate(prepared);
  std::array<int, 2> in{};
  std::array<int, 2> out{};
  // A socket pair instead of a pipe, so that writing to a program that has ended raises no SIGPIPE.
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, in.data()) != 0) {
    return FailErrno("socketpair", errno);
  }
  UniqueFd in_read(in[0]);
  UniqueFd in_write(in[1]);
  if (::pipe2(out.data(), O_CLOEXEC) != 0) return FailErrno("pipe", errno);
  UniqueFd out_read(out[0]);
  UniqueFd out_write(out[1]);
  prepared->die_with_parent = true;
  const pid_t pid = ::fork();
  if (pid < 0) return FailErrno("fork", errno);
  if (pid == 0) ChildMain(*prepared, in_read.get(), out_write.get(), -1);
  ChildProcess child;
  child.pid_ = pid;
  child.input_ = std::move(in_write);
  child.output_ = std::move(out_read);
  return child;
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      input_(std::move(other.input_)),
      output_(std::move(other.output_)) {}

ChildProcess& ChildProcess::operator=(ChildProcess&& other) noexcept {
  std::swap(pid_, other.pid_);
  std::swap(input_, other.input_);
  std::swap(output_, other.output_);
  return *this;
}

ChildProcess::~ChildProcess() {
  Kill();
  Wait();
}

Result<void> ChildProcess::Write(std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::send(input_.get(), text.data(), text.size(), MSG_NOSIGNAL);
    if (n < 0 && errno == EPIPE) return {};
    if (n < 0 && errno != EINTR) return FailErrno("writing to a program", errno);
    if (n > 0) text.remove_prefix(static_cast<std::size_t>(n));
  }
  return {};
}

void ChildProcess::Kill() {
  if (pid_ > 0) ::kill(pid_, SIGKILL);
}

bool ChildProcess::HasEnded() const {
  if (pid_ <= 0) return true;
  siginfo_t ended{};
  const int found = ::waitid(P_PID, static_cast<id_t>(pid_), &ended, WEXITED | WNOHANG | WNOWAIT);
  return found == 0 && ended.si_pid == pid_;
}

int ChildProcess::Wait() {
  if (pid_ <= 0) return 0;
  return WaitFor(std::exchange(pid_, -1));
}

Error ExecCommand(const Command& command) {
  Result<Prepared> prepared = Prepare(command);
  if (!prepared) return prepared.error();
  const int error = EnterAndExec(*prepared);
  return FailErrno(CommandText(command), error).value();
}

}  // namespace espalier
