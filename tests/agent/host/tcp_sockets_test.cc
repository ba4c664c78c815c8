#include "agent/host/tcp_sockets.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <linux/inet_diag.h>
#include <netinet/in.h>
#include <sys/fsuid.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <random>

#include "tests/agent/host/loopback_connection.h"
#include "tests/seeds.h"

namespace espalier::agent {
namespace {

class TcpSocketsTest : public ::testing::Test {
 protected:
  std::optional<TcpSocket> Read(const TcpConnection& connection) {
    return sockets_->Read(std::span(&connection, 1)).front();
  }

  Result<TcpSockets> sockets_ = TcpSockets::Open();
};

TEST_F(TcpSocketsTest, ReadsTheSocketOfAConnection) {
  const LoopbackConnection connection(AF_INET);
  ASSERT_EQ(connection.error(), "");
  const auto sender = Read(connection.Sender());
  ASSERT_TRUE(sender);
  EXPECT_EQ(sender->user, geteuid());
  EXPECT_EQ(sender->timeouts, 0U);
  EXPECT_GT(sender->rtt_us, 0U);
  EXPECT_NE(sender->cookie, 0U);
  EXPECT_EQ(Read(connection.Sender())->cookie, sender->cookie);
  const auto receiver = Read(connection.Receiver());
  ASSERT_TRUE(receiver);
  EXPECT_NE(receiver->cookie, sender->cookie);
}

TEST_F(TcpSocketsTest, ReadsOneOfIpv6) {
  const LoopbackConnection connection(AF_INET6);
  if (!connection.error().empty()) GTEST_SKIP() << connection.error();
  EXPECT_TRUE(Read(connection.Sender()));
}

TEST_F(TcpSocketsTest, KnowsNoneWithoutAConnection) {
  const LoopbackConnection connection(AF_INET);
  ASSERT_EQ(connection.error(), "");
  TcpConnection wrong = connection.Sender();
  wrong.destination = IpAddress::FromV4(0x7F000002);
  EXPECT_FALSE(Read(wrong));
  wrong = connection.Sender();
  ++wrong.source_port;
  EXPECT_FALSE(Read(wrong));
  wrong = connection.Receiver();
  ++wrong.destination_port;
  EXPECT_FALSE(Read(wrong));  // the kernel finds the socket that listens
  EXPECT_FALSE(Read({}));
}

TEST_F(TcpSocketsTest, KnowsNoneThatItsProcessHasClosed) {
  LoopbackConnection connection(AF_INET);
  ASSERT_EQ(connection.error(), "");
  ASSERT_TRUE(Read(connection.Sender()));
  connection.CloseSender();
  EXPECT_FALSE(Read(connection.Sender()));
}

TEST_F(TcpSocketsTest, ReadsManyInTheirOrder) {
  const LoopbackConnection connection(AF_INET);
  ASSERT_EQ(connection.error(), "");
  std::vector<TcpConnection> wanted(333);
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (i % 3 != 0) wanted[i] = i % 3 == 1 ? connection.Sender() : connection.Receiver();
  }
  const std::uint64_t sender = Read(connection.Sender())->cookie;
  const std::uint64_t receiver = Read(connection.Receiver())->cookie;
  const auto found = sockets_->Read(wanted);
  ASSERT_EQ(found.size(), wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    ASSERT_EQ(found[i].has_value(), i % 3 != 0) << i;
    if (i % 3 == 0) continue;
    EXPECT_EQ(found[i]->cookie, i % 3 == 1 ? sender : receiver) << i;
  }
}

// The user of a socket is the one who made it.
TEST_F(TcpSocketsTest, ReadsWhoOwnsIt) {
  constexpr uid_t kSomebody = 12'345;
  setfsuid(kSomebody);
  const bool is_somebody = setfsuid(kSomebody) == static_cast<int>(kSomebody);
  const LoopbackConnection connection(AF_INET);
  setfsuid(geteuid());
  if (!is_somebody) GTEST_SKIP() << "may not act for other users";
  ASSERT_EQ(connection.error(), "");
  ASSERT_TRUE(Read(connection.Sender()));
  EXPECT_EQ(Read(connection.Sender())->user, kSomebody);
}

TEST(ReadTcpSocket, RefusesTruncatedAndRandomBytes) {
  const std::uint64_t seed = SeedsToTry(1, 1).front();
  std::mt19937_64 random(seed);
  SCOPED_TRACE(seed);
  for (int i = 0; i < 20'000; ++i) {
    alignas(8) std::array<std::byte, 400> bytes;
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random() % (i % 2 == 0 ? 3 : 256));
    bytes[1] = std::byte{1};  // established
    static_cast<void>(ReadTcpSocket(std::span(bytes).first(random() % bytes.size())));
  }
  std::array<std::byte, sizeof(inet_diag_msg)> without_state{};
  EXPECT_FALSE(ReadTcpSocket(without_state));
}

}  // namespace
}  // namespace espalier::agent
