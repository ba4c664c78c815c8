// Who is at the other end of a socket: users, their subordinate ids, and containers.
#include "common/os/local_peer.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <functional>
#include <string>

#include "common/os/message_socket.h"
#include "tests/temporary_folder.h"

namespace espalier {
namespace {

constexpr uid_t kAlice = 61'001;

TEST(PodOfCgroup, IsTheNameThatKubeletGivesIt) {
  const std::string slice = "/kubepods.slice/kubepods-burstable.slice/";
  const std::string pod = "kubepods-burstable-pod1234_ab.slice";
  EXPECT_EQ(PodOfCgroup("0::" + slice + pod + "/cri-containerd-77.scope\n"), pod);
  EXPECT_EQ(PodOfCgroup("0::/kubepods/besteffort/pod12-34/99\n"), "pod12-34");
  EXPECT_EQ(PodOfCgroup("0::/kubepods.slice/kubepods-pod5.slice/cri-5.scope\n"),
            "kubepods-pod5.slice");
  EXPECT_EQ(PodOfCgroup("12:pids:/\n9:memory:/kubepods/pod7/99\n0::/\n"), "pod7");
  // From within a pod.
  EXPECT_EQ(PodOfCgroup("0::/../../kubepods-besteffort-pod8.slice/cri-8.scope\n"),
            "kubepods-besteffort-pod8.slice");
  EXPECT_EQ(PodOfCgroup("0::/../../../burstable/pod9/99\n"), "pod9");
}

TEST(PodOfCgroup, CannotBeMadeByAUser) {
  for (const char* cgroup :
       {"", "0::/\n", "0::/..\n", "0::/../cri-containerd-77.scope\n", "0::/init.scope\n",
        "0::/user.slice/user-1000.slice/kubepods.slice/kubepods-pod5.slice\n",
        "0::/user.slice/pod5\n", "0::/../../../../user.slice/user-1000.slice/pod5\n",
        "0::/system.slice/docker-pod5.scope\n", "1:name=systemd:/user.slice/kubepods/pod5\n"}) {
    EXPECT_EQ(PodOfCgroup(cgroup), "") << cgroup;
  }
}

class LocalPeersTest : public testing::Test {
 protected:
  std::string Write(const std::string& name, const std::string& text) const {
    std::string path = folder_.path() + "/" + name;
    std::ofstream(path) << text;
    return path;
  }
  // The peer that a process is after `become`.
  LocalPeer PeerThat(const std::function<bool()>& become) {
    const std::string path = folder_.path() + "/socket";
    auto listener = ListenOnPath(path);
    EXPECT_TRUE(listener);
    EXPECT_EQ(::chmod(folder_.path().c_str(), 0755), 0);
    const pid_t child = ::fork();
    if (child == 0) {
      if (!become()) ::_exit(1);
      const auto socket = ConnectToPath(path);
      char byte = 0;
      ::_exit(socket && ::recv(socket->get(), &byte, 1, 0) == 1 ? 0 : 1);
    }
    UniqueFd spare;
    std::optional<UniqueFd> socket;
    while (!socket && ::waitpid(child, nullptr, WNOHANG) == 0) {
      socket = AcceptCaller(listener->get(), spare);
    }
    if (!socket) return {.container = "none"};
    LocalPeer peer = peers_.Of(socket->get()).value_or(LocalPeer{});
    EXPECT_EQ(::send(socket->get(), "", 1, 0), 1);
    ::waitpid(child, nullptr, 0);
    ::unlink(path.c_str());
    return peer;
  }
  // Continues in a process of new namespaces.
  static bool EnterNamespaces(int which) {
    if (::unshare(which) != 0) return false;
    if ((which & CLONE_NEWUSER) != 0) {  // in which it is root
      std::ofstream map("/proc/self/uid_map");
      if (!(map << "0 0 1" << std::flush)) return false;
    }
    const pid_t child = ::fork();
    if (child == 0) return true;
    int status = 0;
    ::waitpid(child, &status, 0);
    ::_exit(WEXITSTATUS(status));
  }

  TemporaryFolder folder_;
  LocalPeers peers_;
};

TEST_F(LocalPeersTest, SubordinateIdsAreTheirOwners) {
  LocalPeers peers({.subordinate_ids = Write("subuid",
                                             "alice:100000:65536\n1002:165536:65536\n"
                                             "far:300000:10\nfar:400000:10\n"
                                             "alice:500000:5\n:1:2\nbad:x:1\nbad:1\n"),
                    .users = Write("passwd", "root:x:0:0::/:\nalice:x:1001:1001::/:\n")});
  EXPECT_EQ(peers.OwnerOf(0), 0U);
  EXPECT_EQ(peers.OwnerOf(1001), 1001U);
  EXPECT_EQ(peers.OwnerOf(99'999), 99'999U);
  EXPECT_EQ(peers.OwnerOf(100'000), 1001U);
  EXPECT_EQ(peers.OwnerOf(165'535), 1001U);
  EXPECT_EQ(peers.OwnerOf(500'004), 1001U);
  EXPECT_EQ(peers.OwnerOf(500'005), 500'005U);
  EXPECT_EQ(peers.OwnerOf(165'536), 1002U);
  // A user of a directory server: one user, though nobody knows which.
  EXPECT_GT(peers.OwnerOf(300'000), std::uint64_t{UINT32_MAX});
  EXPECT_EQ(peers.OwnerOf(300'009), peers.OwnerOf(400'000));
}

TEST_F(LocalPeersTest, SubordinateIdsAreReadAgainWhenTheyChange) {
  const std::string path = Write("subuid", "");
  LocalPeers peers({.subordinate_ids = path, .users = folder_.path() + "/none"});
  EXPECT_EQ(peers.OwnerOf(100'000), 100'000U);
  std::ofstream(path) << "1001:100000:65536\n";
  const std::array<timespec, 2> later = {{{2'000'000'000, 0}, {2'000'000'000, 0}}};
  ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), later.data(), 0), 0);
  EXPECT_EQ(peers.OwnerOf(100'000), 1001U);
}

TEST_F(LocalPeersTest, AProcessOfTheHostIsInNoContainer) {
  const LocalPeer peer = PeerThat([] { return true; });
  EXPECT_EQ(peer.user, ::geteuid());
  EXPECT_EQ(peer.payer, ::geteuid());
  EXPECT_EQ(peer.container, "");
  EXPECT_TRUE(peer.controls_host) << "it has the rights of this process";
}

TEST_F(LocalPeersTest, AnotherUserDoesNotControlTheHost) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root to become another user";
  const LocalPeer peer = PeerThat([] { return ::setuid(kAlice) == 0; });
  EXPECT_EQ(peer.user, kAlice);
  EXPECT_EQ(peer.container, "");
  EXPECT_FALSE(peer.controls_host);
}

// As in a pod of a tenant.
TEST_F(LocalPeersTest, RootOfAContainerIsNotRootOfTheHost) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root to make namespaces";
  for (const int namespaces : {CLONE_NEWPID, CLONE_NEWUSER, CLONE_NEWPID | CLONE_NEWUSER}) {
    const LocalPeer peer = PeerThat([=] { return EnterNamespaces(namespaces); });
    EXPECT_EQ(peer.user, 0U);
    EXPECT_NE(peer.container, "") << namespaces;
    EXPECT_FALSE(peer.controls_host) << namespaces;
  }
}

TEST_F(LocalPeersTest, RootWithoutCapabilitiesDoesNotControlTheHost) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root";
  const LocalPeer peer = PeerThat([] {
    __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    const std::array<__user_cap_data_struct, 2> none{};
    return ::syscall(SYS_capset, &header, none.data()) == 0;
  });
  EXPECT_EQ(peer.user, 0U);
  EXPECT_EQ(peer.container, "");
  EXPECT_FALSE(peer.controls_host);
}

TEST_F(LocalPeersTest, AProcessThatHasEndedIsUnknown) {
  std::array<int, 2> pair{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair.data()), 0);
  EXPECT_EQ(peers_.ContainerOf(0), kUnknownContainer);
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  ::waitpid(child, nullptr, 0);
  EXPECT_EQ(peers_.ContainerOf(child), kUnknownContainer);
  ::close(pair[0]);
  ::close(pair[1]);
}

}  // namespace
}  // namespace espalier
