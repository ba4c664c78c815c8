// Agents, and programs, that are not as the library expects them.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <future>
#include <vector>

#include "agent/local/local_protocol.h"
#include "common/os/message_socket.h"
#include "tests/agent/local/local_api_fixture.h"

namespace espalier::agent {
namespace {

constexpr std::size_t kLeastBytes = offsetof(espalier_local_memory, paths);

UniqueFd MemoryOf(std::size_t bytes, int seals) {
  UniqueFd file(memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  EXPECT_EQ(ftruncate(file.get(), static_cast<off_t>(bytes)), 0);
  EXPECT_EQ(fcntl(file.get(), F_ADD_SEALS, seals), 0);
  return file;
}

class HostileAgent : public ::testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove_all(folder_); }

  // What a program gets that connects to an agent which answers with this file.
  int ConnectTo(const UniqueFd& file) {
    auto listener = ListenOnPath(path_);
    EXPECT_TRUE(listener);
    espalier_agent* agent = nullptr;
    auto connecting = std::async(std::launch::async,
                                 [&] { return espalier_agent_connect(path_.c_str(), &agent); });
    pollfd ready{listener->get(), POLLIN, 0};
    poll(&ready, 1, -1);
    UniqueFd spare;
    const auto caller = AcceptCaller(listener->get(), spare);
    const espalier_local_welcome welcome = {ESPALIER_LOCAL_VERSION, 0, 1, ESPALIER_LOCAL_SLOTS};
    EXPECT_TRUE(SendMessage(caller->get(), &welcome, sizeof(welcome), file.get()));
    const int status = connecting.get();
    if (status == 0) espalier_agent_close(agent);
    return status;
  }

  std::string folder_ = MakeFolder();
  std::string path_ = folder_ + "/agent.sock";
};

// Reading such a file, or one that becomes shorter later, ended the program by SIGBUS.
TEST_F(HostileAgent, CannotEndAProgramByTheMemoryFile) {
  constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW;
  EXPECT_EQ(ConnectTo(MemoryOf(0, kSeals)), -EPROTO);
  EXPECT_EQ(ConnectTo(MemoryOf(kLeastBytes - 1, kSeals)), -EPROTO);
  EXPECT_EQ(ConnectTo(MemoryOf(sizeof(espalier_local_memory), 0)), -EPROTO);
  EXPECT_EQ(ConnectTo(MemoryOf(sizeof(espalier_local_memory), F_SEAL_GROW)), -EPROTO);
  EXPECT_EQ(ConnectTo(UniqueFd(open("/dev/zero", O_RDWR | O_CLOEXEC))), -EPROTO);
  EXPECT_EQ(ConnectTo(MemoryOf(kLeastBytes, kSeals)), 0);
  EXPECT_EQ(ConnectTo(MemoryOf(sizeof(espalier_local_memory), F_SEAL_SHRINK)), 0);
}

// Closes all descriptors above those of the test, and opens sockets and an epoll in their place.
class ClosingProgram {
 public:
  explicit ClosingProgram(int first) {
    EXPECT_EQ(close_range(static_cast<unsigned>(first), ~0U, 0), 0);
    epoll_ = epoll_create1(0);
    for (auto& pair : pairs_) {
      EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair.data()), 0);
      for (const int end : pair) {
        epoll_event event{};
        event.events = EPOLLIN;
        EXPECT_EQ(epoll_ctl(epoll_, EPOLL_CTL_ADD, end, &event), 0);
        EXPECT_EQ(send(end, "mine", 4, 0), 4);
      }
    }
  }
  ClosingProgram(const ClosingProgram&) = delete;
  ClosingProgram& operator=(const ClosingProgram&) = delete;
  ~ClosingProgram() {
    for (const auto& pair : pairs_) {
      for (const int end : pair) close(end);
    }
    close(epoll_);
  }

  // Every socket is open, watched, and has what was sent, and nothing else.
  void ExpectUntouched() const {
    std::array<epoll_event, 32> events{};
    EXPECT_EQ(epoll_wait(epoll_, events.data(), events.size(), 0), 2 * kPairs);
    for (const auto& pair : pairs_) {
      for (const int end : pair) {
        std::array<char, 16> bytes{};
        EXPECT_EQ(recv(end, bytes.data(), bytes.size(), MSG_DONTWAIT), 4);
        EXPECT_EQ(recv(end, bytes.data(), bytes.size(), MSG_DONTWAIT), -1);
        EXPECT_EQ(errno, EAGAIN);
      }
    }
  }

 private:
  static constexpr int kPairs = 4;
  int epoll_ = -1;
  std::array<std::array<int, 2>, kPairs> pairs_{};
};

class ProgramThatClosesDescriptors : public LocalApi {
 protected:
  // Connects with descriptors from kFirst on, which are the next ones again once they are closed.
  espalier_agent* ConnectAbove() {
    while (below_.empty() || below_.back().get() < kFirst - 1) below_.emplace_back(dup(0));
    return Connect();
  }

  static constexpr int kFirst = 100;

 private:
  std::vector<UniqueFd> below_;
};

// A wake-up went into whatever socket of the program had got the number, and closing closed it.
TEST_F(ProgramThatClosesDescriptors, KeepsItsOwnDescriptors) {
  espalier_agent* agent = ConnectAbove();
  espalier_flow* first = Open(agent, Desc("a"));
  espalier_flow* second = Open(agent, Desc("b"));
  server_.reset();  // whose descriptors would be closed next
  const ClosingProgram program(kFirst);
  espalier_flow_close(first);
  EXPECT_EQ(espalier_flow_set_local_qpn(second, 7), 0);
  EXPECT_EQ(espalier_agent_dispatch(agent), -EPIPE);
  espalier_flow* third = nullptr;
  const espalier_flow_desc description = Desc("c");
  EXPECT_EQ(espalier_flow_open(agent, &description, &third), -EPIPE);
  espalier_agent_close(agent);
  program.ExpectUntouched();
}

TEST_F(ProgramThatClosesDescriptors, KeepsThemWhileTheAgentIsAway) {
  setenv("ESPALIER_AGENT_GRACE_SECONDS", "3600", 1);
  espalier_agent* agent = ConnectAbove();
  unsetenv("ESPALIER_AGENT_GRACE_SECONDS");
  Open(agent, Desc("a"));
  server_.reset();
  EXPECT_EQ(espalier_agent_dispatch(agent), 0);  // it has gone
  EXPECT_EQ(espalier_agent_dispatch(agent), 0);  // sought, in vain
  const ClosingProgram program(kFirst);
  EXPECT_EQ(espalier_agent_dispatch(agent), -EPIPE);
  espalier_agent_close(agent);
  program.ExpectUntouched();
}

}  // namespace
}  // namespace espalier::agent
