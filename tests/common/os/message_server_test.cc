// A server of untrusted callers: their identity, their limits, and which of them is removed.
#include "common/os/message_server.h"

#include <gmock/gmock.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string>
#include <vector>

#include "common/os/message_socket.h"
#include "tests/temporary_folder.h"

namespace espalier {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Admits callers that send "admit" and removes those that send "go".
class MessageServerTest : public ::testing::Test {
 protected:
  MessageServerTest()
      : server_({.most = 4, .max_per_user = 3},
                {.on_readable = [this](auto& caller) { return Read(caller); },
                 .on_gone = [this](const auto& caller) { gone_.push_back(caller.number); },
                 .on_refused = [this] { ++refused_; }}) {
    const auto listening = server_.Listen(path_);
    EXPECT_TRUE(listening) << listening.error().message;
  }

  bool Read(MessageServer::Caller& caller) {
    std::array<char, 64> text{};
    const ssize_t size = recv(caller.socket.get(), text.data(), text.size(), MSG_DONTWAIT);
    if (size <= 0) return false;
    EXPECT_EQ(caller.peer.user, geteuid());
    EXPECT_EQ(caller.peer.process, getpid());
    heard_.push_back(caller.number);
    const std::string word(text.data(), static_cast<std::size_t>(size));
    return word == "admit" ? server_.Admit(caller) : word != "go";
  }
  UniqueFd Connect() {
    auto socket = ConnectToPath(path_);
    EXPECT_TRUE(socket);
    server_.HandleReady();
    return std::move(*socket);
  }
  void Say(const UniqueFd& socket, const std::string& word) {
    EXPECT_TRUE(SendMessage(socket.get(), word.data(), word.size()));
    server_.HandleReady();
  }
  UniqueFd ConnectAndSay(const std::string& word) {
    UniqueFd socket = Connect();
    Say(socket, word);
    return socket;
  }
  static bool IsOpen(const UniqueFd& socket) {
    char byte = 0;
    return recv(socket.get(), &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN;
  }

  TemporaryFolder temporary_;
  std::string path_ = temporary_.path() + "/socket";
  std::vector<std::uint32_t> heard_;
  std::vector<std::uint32_t> gone_;
  int refused_ = 0;
  MessageServer server_;
};

TEST_F(MessageServerTest, SaysWhichCallerHasSomethingToRead) {
  const UniqueFd first = Connect();
  const UniqueFd second = Connect();
  EXPECT_THAT(heard_, IsEmpty());
  Say(second, "hello");
  Say(first, "hello");
  EXPECT_THAT(heard_, ElementsAre(2, 1));
  EXPECT_TRUE(IsOpen(first) && IsOpen(second));
}

TEST_F(MessageServerTest, ClosesTheConnectionsOfThoseThatHaveToGo) {
  const UniqueFd first = ConnectAndSay("go");
  EXPECT_THAT(gone_, ElementsAre(1));
  EXPECT_FALSE(IsOpen(first));
  ConnectAndSay("admit").Close();
  server_.HandleReady();
  EXPECT_THAT(gone_, ElementsAre(1, 2));
  EXPECT_EQ(server_.admitted(), 0U);
  EXPECT_EQ(refused_, 0);
}

TEST_F(MessageServerTest, RemovesACallerThatItIsToldTo) {
  const UniqueFd first = ConnectAndSay("admit");
  server_.Remove(1);
  server_.Remove(1);
  EXPECT_THAT(gone_, ElementsAre(1));
  EXPECT_FALSE(IsOpen(first));
}

TEST_F(MessageServerTest, LetsTheOldestSilentCallerGiveWay) {
  const UniqueFd admitted = ConnectAndSay("admit");
  std::vector<UniqueFd> silent;
  for (int i = 0; i < 3; ++i) silent.push_back(Connect());
  EXPECT_EQ(refused_, 0);
  silent.push_back(Connect());
  EXPECT_EQ(refused_, 1);
  EXPECT_THAT(gone_, ElementsAre(2));
  EXPECT_FALSE(IsOpen(silent.front()));
  EXPECT_TRUE(IsOpen(admitted));
  for (std::size_t i = 1; i < silent.size(); ++i) EXPECT_TRUE(IsOpen(silent[i])) << "i=" << i;
}

TEST_F(MessageServerTest, AdmitsNoMoreOfAUserThanItsLimit) {
  std::vector<UniqueFd> callers;
  for (int i = 0; i < 3; ++i) callers.push_back(ConnectAndSay("admit"));
  EXPECT_FALSE(IsOpen(ConnectAndSay("admit")));
  EXPECT_EQ(server_.admitted(), 3U);
  EXPECT_THAT(gone_, ElementsAre(4));
  callers.pop_back();
  server_.HandleReady();
  EXPECT_EQ(server_.admitted(), 2U);
  callers.push_back(ConnectAndSay("admit"));
  EXPECT_TRUE(IsOpen(callers.back()));
}

TEST(MessageServer, RemovesItsFile) {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/socket";
  struct stat status {};
  {
    MessageServer server({1, 1}, {});
    ASSERT_TRUE(server.Listen(path));
    MessageServer second({1, 1}, {});
    EXPECT_FALSE(second.Listen(path));
    EXPECT_EQ(lstat(path.c_str(), &status), 0);
  }
  EXPECT_NE(lstat(path.c_str(), &status), 0);
}

}  // namespace
}  // namespace espalier
