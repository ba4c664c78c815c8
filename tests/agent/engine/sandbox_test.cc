#include "agent/engine/sandbox.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <functional>
#include <string>
#include <thread>

namespace espalier::engine {
namespace {

constexpr int kRefused = 42;
constexpr int kAllowed = 43;

// Does this in a sandboxed process. Returns the signal that ends the process, as a
// negative number, or kRefused or kAllowed.
int InSandbox(const std::function<bool()>& attempt) {
  const pid_t child = ::fork();
  if (child == 0) {
    if (!EnterSandbox()) ::_exit(1);
    ::_exit(attempt() ? kAllowed : kRefused);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

TEST(Sandbox, EndsAProcessThatAccessesOtherProcesses) {
  const pid_t other = ::getpid();
  char byte = 0;
  iovec here = {&byte, 1};
  EXPECT_EQ(InSandbox([&] { return ::process_vm_readv(other, &here, 1, &here, 1, 0) == 1; }),
            -SIGSYS);
  EXPECT_EQ(InSandbox([&] { return ::process_vm_writev(other, &here, 1, &here, 1, 0) == 1; }),
            -SIGSYS);
  EXPECT_EQ(InSandbox([&] { return ::ptrace(PTRACE_ATTACH, other, 0, 0) == 0; }), -SIGSYS);
  EXPECT_EQ(InSandbox([&] { return ::syscall(SYS_pidfd_getfd, 0, 0, 0) >= 0; }), -SIGSYS);
  EXPECT_EQ(InSandbox([&] { return ::kill(other, 0) == 0; }), kRefused);
}

TEST(Sandbox, EndsAProcessThatRunsProgramsOrChangesNamespaces) {
  EXPECT_EQ(InSandbox([] { return ::execl("/bin/true", "true", nullptr) == 0; }), -SIGSYS);
  EXPECT_EQ(InSandbox([] { return ::syscall(SYS_unshare, 0) == 0; }), -SIGSYS);
  EXPECT_EQ(InSandbox([] { return ::syscall(SYS_bpf, 0, 0, 0) == 0; }), -SIGSYS);
  // fork, as the C library makes it
  EXPECT_EQ(InSandbox([] { return ::fork() >= 0; }), kRefused);
}

TEST(Sandbox, HasNoRawSocketsAndNoCodeThatIsWritten) {
  EXPECT_EQ(InSandbox([] { return ::socket(AF_PACKET, SOCK_RAW, 0) >= 0; }), kRefused);
  EXPECT_EQ(InSandbox([] { return ::socket(AF_INET, SOCK_RAW, IPPROTO_ICMP) >= 0; }), kRefused);
  EXPECT_EQ(InSandbox([] {
              return ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
                            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED;
            }),
            kRefused);
  EXPECT_EQ(InSandbox([] {
              void* page =
                  ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
              return ::mprotect(page, 4096, PROT_READ | PROT_EXEC) == 0;
            }),
            kRefused);
  // A memory file or a library could hold code, too.
  EXPECT_EQ(InSandbox([] {
              const int file = ::memfd_create("code", 0);
              return ::write(file, "", 1) != 1 || ::mmap(nullptr, 4096, PROT_READ | PROT_EXEC,
                                                         MAP_PRIVATE, file, 0) != MAP_FAILED;
            }),
            kRefused);
  EXPECT_EQ(InSandbox([] {
              const int file = ::open("/proc/self/exe", O_RDONLY);
              return ::mmap(nullptr, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, 0) !=
                     MAP_FAILED;
            }),
            kRefused);
}

TEST(Sandbox, HasNoCapabilities) {
  EXPECT_EQ(InSandbox([] {
              std::ifstream status("/proc/self/status");
              std::string line;
              int clean = 0;
              while (std::getline(status, line)) {
                const bool is_set = line.starts_with("CapPrm:") || line.starts_with("CapEff:") ||
                                    line.starts_with("CapBnd:") || line.starts_with("CapAmb:");
                if (is_set && line.ends_with("\t0000000000000000")) ++clean;
                if (line == "NoNewPrivs:\t1" || line == "Seccomp:\t2") ++clean;
              }
              return ::getuid() != 0 ? clean >= 5 : clean == 6;
            }),
            kAllowed);
}

TEST(Sandbox, LetsTheEngineDoItsWork) {
  EXPECT_EQ(InSandbox([] {
              bool has_run = false;
              std::thread thread([&] { has_run = true; });
              thread.join();
              const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
              void* memory = ::mmap(nullptr, 1 << 20, PROT_READ | PROT_WRITE,
                                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
              return has_run && socket >= 0 && memory != MAP_FAILED;
            }),
            kAllowed);
}

TEST(Sandbox, KnowsUsersThatDoNotExist) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root becomes another user";
  const auto became = BecomeUser("espalier-nobody-at-all");
  ASSERT_FALSE(became);
  EXPECT_EQ(became.error().code, ErrorCode::kNotFound);
  EXPECT_TRUE(BecomeUser(""));
  const pid_t child = ::fork();
  if (child == 0) {
    const bool became_nobody = BecomeUser("nobody").has_value();
    ::_exit(became_nobody && ::getuid() != 0 && ::getgroups(0, nullptr) == 0 && ::setuid(0) != 0
                ? 0
                : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

}  // namespace
}  // namespace espalier::engine
