#include "collective/transport/tcp/tcp_connection.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <string>

namespace espalier::transport {
namespace {

constexpr std::size_t kSlotBytes = 256;
constexpr int kSlots = 2;

// One end is a connection, the other a socket that says whatever the test likes.
class TcpConnectionTest : public testing::Test {
 protected:
  TcpConnectionTest() {
    int ends[2] = {-1, -1};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    peer_ = UniqueFd(ends[0]);
    connection_.emplace(UniqueFd(ends[1]), 1, kSlots, pool_, turn_);
  }
  void Say(const FrameHeader& header, const std::string& bytes) {
    ASSERT_TRUE(::send(peer_.get(), &header, sizeof(header), MSG_NOSIGNAL) == sizeof(header));
    if (bytes.empty()) return;
    ASSERT_EQ(::send(peer_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
    connection_->MarkReady(POLLIN);
  }
  void SendOne() {
    ASSERT_NE(connection_->sender().TryAcquire(), nullptr);
    connection_->sender().Commit(8, {});
  }

  SlotPool pool_{kSlotBytes, std::pmr::get_default_resource()};
  LendingTurn turn_;
  UniqueFd peer_;
  std::optional<TcpConnection> connection_;
};

TEST_F(TcpConnectionTest, TakesNoFrameThatFitsNoSlot) {
  Say({.kind = kMessageFrame, .bytes = kSlotBytes}, std::string(kSlotBytes, 'a'));
  const Message* const message = connection_->receiver().TryPeek();
  ASSERT_NE(message, nullptr);
  EXPECT_EQ(message->bytes.size(), kSlotBytes);
  connection_->receiver().Release();
  Say({.kind = kMessageFrame, .bytes = kSlotBytes + 1}, std::string(kSlotBytes + 1, 'b'));
  EXPECT_EQ(connection_->receiver().TryPeek(), nullptr);
  EXPECT_EQ(connection_->Ending(), "rank 1 is gone: it sends something else than messages");
}

// The cause is in what came before the end, which a rank that only sends has not read.
TEST_F(TcpConnectionTest, SaysWhyAPeerHasGoneThatSaidIt) {
  Say({.kind = kAbortFrame, .bytes = 12}, "out of paper");
  peer_.Close();
  EXPECT_EQ(connection_->Ending(), std::nullopt);
  SendOne();
  EXPECT_EQ(connection_->Ending(), "out of paper");
  EXPECT_EQ(connection_->Failure(), "out of paper");
}

TEST_F(TcpConnectionTest, FailsOnceSomethingIsAskedOfAPeerThatHasGone) {
  peer_.Close();
  connection_->receiver().Receive();
  EXPECT_NE(connection_->Ending(), std::nullopt);
  EXPECT_EQ(connection_->Failure(), std::nullopt);
  EXPECT_EQ(connection_->receiver().TryPeek(), nullptr);
  EXPECT_EQ(connection_->Failure(), "rank 1 is gone: it closed the connection");
}

TEST_F(TcpConnectionTest, KeepsTheLastNoticeUntilItIsForgotten) {
  Say({.kind = kNoticeFrame, .tag = {1}}, "");
  Say({.kind = kNoticeFrame, .tag = {2}}, "");
  EXPECT_EQ(connection_->receiver().TryPeek(), nullptr);
  EXPECT_EQ(connection_->receiver().notice(), MessageTag{2});
  connection_->receiver().ForgetNotice();
  EXPECT_EQ(connection_->receiver().notice(), std::nullopt);
}

TEST_F(TcpConnectionTest, GivesUpAtOnceAndSaysWhy) {
  SendOne();
  connection_->sender().SendAbort("no more");
  EXPECT_EQ(connection_->sender().TryAcquire(), nullptr);
  std::string said(1000, ' ');
  said.resize(static_cast<std::size_t>(::recv(peer_.get(), said.data(), said.size(), 0)));
  EXPECT_EQ(said.size(), 2 * sizeof(FrameHeader) + 8 + 7);
  EXPECT_TRUE(said.ends_with("no more"));
  EXPECT_EQ(::recv(peer_.get(), said.data(), said.size(), 0), 0);
}

}  // namespace
}  // namespace espalier::transport
