#include "collective/transport/base/fork_guard.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "common/base/unique_fd.h"
#include "tests/seeds.h"

namespace espalier::transport {
namespace {

// Forks a child that ends with what `body` returns, and waits for its end.
int RunInChild(const std::function<int()>& body) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(body());
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  return WEXITSTATUS(status);
}

bool IsSocket(int descriptor) {
  struct stat status = {};
  return ::fstat(descriptor, &status) == 0 && S_ISSOCK(status.st_mode);
}

bool IsNullDevice(int descriptor) {
  struct stat status = {};
  struct stat null = {};
  return ::fstat(descriptor, &status) == 0 && ::stat("/dev/null", &null) == 0 &&
         S_ISCHR(status.st_mode) && status.st_rdev == null.st_rdev;
}

UniqueFd OpenSocket() { return UniqueFd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)); }

// The descriptor stays taken in the child, so that none of its files gets the number.
TEST(ForkGuard, LeavesTheChildTheNullDevice) {
  const UniqueFd socket = OpenSocket();
  const ForkGuard guard(socket.get());
  EXPECT_EQ(RunInChild([&] {
              if (!IsNullDevice(socket.get())) return 1;
              if ((::fcntl(socket.get(), F_GETFD) & FD_CLOEXEC) == 0) return 2;
              return 0;
            }),
            0);
  EXPECT_TRUE(IsSocket(socket.get()));
}

TEST(ForkGuard, LeavesNoDescriptorOfItsOwn) {
  const UniqueFd socket = OpenSocket();
  const ForkGuard guard(socket.get());
  const UniqueFd before(::open("/", O_RDONLY | O_CLOEXEC));
  const int free = ::open("/", O_RDONLY | O_CLOEXEC);
  ::close(free);
  EXPECT_EQ(RunInChild([&] { return ::open("/", O_RDONLY | O_CLOEXEC) == free ? 0 : 1; }), 0);
}

// The peer sees the end when the parent closes, though the child lives on.
TEST(ForkGuard, LetsThePeerSeeTheEndWhileAChildLives) {
  int ends[2] = {-1, -1};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  const UniqueFd peer(ends[1]);
  int wait[2] = {-1, -1};
  ASSERT_EQ(::pipe2(wait, O_CLOEXEC), 0);
  const UniqueFd wait_for(wait[0]);
  UniqueFd let_go(wait[1]);
  pid_t child = -1;
  {
    const UniqueFd own(ends[0]);
    const ForkGuard guard(own.get());
    child = ::fork();
    if (child == 0) {
      ::close(peer.get());
      ::close(let_go.get());
      char byte = 0;
      ::_exit(::read(wait_for.get(), &byte, 1) == 0 ? 0 : 1);
    }
  }
  char byte = 0;
  EXPECT_EQ(::recv(peer.get(), &byte, 1, 0), 0);
  let_go.Close();
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
}

// Guards come and go in any order: exactly the guarded descriptors are replaced.
TEST(ForkGuard, ReplacesExactlyWhatIsGuarded) {
  for (const std::uint64_t seed : SeedsToTry(1, 20)) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::uint64_t random = seed;
    std::vector<UniqueFd> sockets;
    std::vector<std::unique_ptr<ForkGuard>> guards(8);
    for (std::size_t i = 0; i < guards.size(); ++i) sockets.push_back(OpenSocket());
    for (int step = 0; step < 30; ++step) {
      random = random * 6'364'136'223'846'793'005ULL + 1;
      const std::size_t i = (random >> 33) % guards.size();
      guards[i] = guards[i] ? nullptr : std::make_unique<ForkGuard>(sockets[i].get());
    }
    const int wrong = RunInChild([&] {
      int count = 0;
      for (std::size_t i = 0; i < guards.size(); ++i) {
        const bool is_replaced = IsNullDevice(sockets[i].get());
        count += is_replaced == (guards[i] != nullptr) ? 0 : 1;
      }
      return count;
    });
    EXPECT_EQ(wrong, 0);
  }
}

// A child's own children have nothing to replace: what it opened there since then stays.
TEST(ForkGuard, LeavesAGrandchildWhatTheChildOpened) {
  const UniqueFd socket = OpenSocket();
  auto guard = std::make_unique<ForkGuard>(socket.get());
  EXPECT_EQ(RunInChild([&] {
              const int own = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
              ::dup3(own, socket.get(), O_CLOEXEC);
              const int in_grandchild = RunInChild([&] { return IsSocket(socket.get()) ? 0 : 1; });
              guard.reset();  // not in the list any more
              return in_grandchild;
            }),
            0);
}

}  // namespace
}  // namespace espalier::transport
