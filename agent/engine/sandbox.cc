#include "agent/engine/sandbox.h"

#include <fmt/format.h>
#include <grp.h>
#include <linux/sched.h>
#include <pwd.h>
#include <seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <iterator>
#include <memory>
#include <sstream>
#include <string_view>
#include <type_traits>
#include <vector>

#include "common/daemon/privileges.h"

namespace espalier::engine {
namespace {

// The calls for threads, memory, time, files and sockets that glibc, Asio, libibverbs and the
// service itself make.
constexpr std::string_view kAllowed =
    "accept accept4 access arch_prctl bind brk chmod clock_getres clock_gettime "
    "clock_nanosleep close connect dup epoll_create1 epoll_ctl epoll_pwait epoll_wait eventfd2 "
    "exit exit_group faccessat faccessat2 fchmod fchmodat fcntl fstat fstatfs futex getdents64 "
    "getegid geteuid getgid getpeername getpid getrandom getrlimit getsockname getsockopt "
    "gettid gettimeofday getuid ioctl listen lseek madvise membarrier memfd_create mincore "
    "mlock mremap munlock munmap nanosleep newfstatat open openat pipe2 poll ppoll pread64 "
    "prlimit64 pwrite64 read readlink readlinkat readv recvfrom recvmmsg recvmsg "
    "restart_syscall rseq rt_sigaction rt_sigprocmask rt_sigreturn sched_getaffinity "
    "sched_getparam sched_getscheduler sched_yield select sendmmsg sendmsg sendto "
    "set_robust_list setsockopt shutdown sigaltstack signalfd4 stat statfs statx sysinfo "
    "tgkill timerfd_create timerfd_gettime timerfd_settime umask uname unlink unlinkat write "
    "writev";

// Calls that only an intruder makes.
constexpr std::string_view kFatal =
    "add_key bpf chroot delete_module execve execveat finit_module init_module io_uring_setup "
    "kcmp kexec_load keyctl mount open_by_handle_at perf_event_open pidfd_getfd pivot_root "
    "process_madvise process_vm_readv process_vm_writev ptrace request_key setns swapon "
    "umount2 unshare userfaultfd";

std::vector<std::string> Split(std::string_view names) {
  std::istringstream stream{std::string(names)};
  return {std::istream_iterator<std::string>(stream), {}};
}

struct Release {
  void operator()(void* filter) const { seccomp_release(filter); }
};
using Filter = std::unique_ptr<std::remove_pointer_t<scmp_filter_ctx>, Release>;

// Adds a rule; skips calls that this kernel's architecture lacks.
int Add(const Filter& filter, std::uint32_t action, const char* call,
        const std::vector<scmp_arg_cmp>& arguments = {}) {
  const int number = seccomp_syscall_resolve_name(call);
  if (number == __NR_SCMP_ERROR || number < 0) return 0;
  return seccomp_rule_add_array(filter.get(), action, number,
                                static_cast<unsigned>(arguments.size()), arguments.data());
}

scmp_arg_cmp Is(unsigned argument, std::uint64_t value) {
  return {argument, SCMP_CMP_EQ, value, 0};
}

scmp_arg_cmp Masked(unsigned argument, std::uint64_t mask, std::uint64_t value) {
  return {argument, SCMP_CMP_MASKED_EQ, mask, value};
}

int AddRules(const Filter& filter) {
  int failed = 0;
  const auto add = [&](std::uint32_t action, const char* call,
                       const std::vector<scmp_arg_cmp>& arguments = {}) {
    if (failed == 0) failed = Add(filter, action, call, arguments);
  };
  for (const std::string& call : Split(kFatal)) add(SCMP_ACT_KILL_PROCESS, call.c_str());
  for (const std::string& call : Split(kAllowed)) add(SCMP_ACT_ALLOW, call.c_str());
  // Allows threads but no processes. The flags of clone3 are in memory, where no filter can see
  // them; glibc uses clone if there is no clone3.
  add(SCMP_ACT_ALLOW, "clone", {Masked(0, CLONE_THREAD, CLONE_THREAD)});
  add(SCMP_ACT_ERRNO(ENOSYS), "clone3");
  for (const int family : {AF_UNIX, AF_INET, AF_INET6, AF_NETLINK}) {
    add(SCMP_ACT_ALLOW, "socket", {Is(0, static_cast<std::uint64_t>(family))});
  }
  // No code from now on, not even from files: what was taken over could write a file first.
  for (const char* call : {"mmap", "mprotect"}) {
    add(SCMP_ACT_ALLOW, call, {Masked(2, PROT_EXEC, 0)});
  }
  // Names of threads, and what glibc needs to start threads.
  for (const int option : {PR_SET_NAME, PR_GET_NAME, PR_GET_DUMPABLE, PR_SET_VMA}) {
    add(SCMP_ACT_ALLOW, "prctl", {Is(0, static_cast<std::uint64_t>(option))});
  }
  // A process may signal only itself (abort).
  add(SCMP_ACT_ALLOW, "kill", {Is(0, static_cast<std::uint64_t>(::getpid()))});
  return failed;
}

tl::unexpected<Error> SystemError(std::string_view what, int error) {
  return Fail(ErrorCode::kPermissionDenied, fmt::format("{}: {}", what, std::strerror(error)));
}

}  // namespace

Result<void> BecomeUser(const std::string& name) {
  if (name.empty() || ::geteuid() != 0) return {};
  const passwd* const user = ::getpwnam(name.c_str());
  if (user == nullptr) {
    return Fail(ErrorCode::kNotFound,
                fmt::format("this host has no user \"{}\" (create the user, or name another one in "
                            "the field user)",
                            name));
  }
  if (::setgroups(0, nullptr) != 0 || ::setgid(user->pw_gid) != 0 || ::setuid(user->pw_uid) != 0) {
    return SystemError(fmt::format("cannot become user {}", name), errno);
  }
  return {};
}

Result<void> EnterSandbox() {
  if (Result<void> given_up = io::KeepOnlyCapabilities({}); !given_up) return given_up;
  const rlimit none = {0, 0};
  if (::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0 || ::setrlimit(RLIMIT_CORE, &none) != 0) {
    return SystemError("cannot disable core dumps", errno);
  }
  const Filter filter(seccomp_init(SCMP_ACT_ERRNO(EPERM)));
  if (filter == nullptr) return Fail(ErrorCode::kUnavailable, "no memory for the seccomp filter");
  int failed = AddRules(filter);
  if (failed == 0) failed = seccomp_load(filter.get());
  if (failed != 0) return SystemError("cannot install the seccomp filter", -failed);
  return {};
}

}  // namespace espalier::engine
