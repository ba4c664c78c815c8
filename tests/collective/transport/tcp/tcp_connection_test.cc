#include "collective/transport/tcp/tcp_connection.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <cstring>
#include <memory_resource>
#include <optional>
#include <string>

namespace espalier::transport {
namespace {

constexpr std::size_t kSlotBytes = 256;
constexpr int kSlots = 2;

// One end is a connection, the other a socket on which the test sends anything.
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
  ZeroCopySendToken turn_;
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
  EXPECT_EQ(connection_->Ending(), "rank 1 is gone: it sends something other than messages");
}

// The cause came before the end, and a rank that only sends has not read it.
TEST_F(TcpConnectionTest, ReportsTheReasonThatAPeerGaveBeforeItLeft) {
  Say({.kind = kAbortFrame, .bytes = 12}, "out of paper");
  peer_.Close();
  EXPECT_EQ(connection_->Ending(), std::nullopt);
  SendOne();
  EXPECT_EQ(connection_->Ending(), "out of paper");
  EXPECT_EQ(connection_->Failure(), "out of paper");
}

TEST_F(TcpConnectionTest, FailsOnceSomethingIsNeededOfAPeerThatHasGone) {
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

TEST_F(TcpConnectionTest, FailsAtOnceWithTheReasonOfAnAbort) {
  SendOne();
  connection_->sender().SendAbort("no more");
  EXPECT_EQ(connection_->sender().TryAcquire(), nullptr);
  std::string said(1000, ' ');
  said.resize(static_cast<std::size_t>(::recv(peer_.get(), said.data(), said.size(), 0)));
  EXPECT_EQ(said.size(), 2 * sizeof(FrameHeader) + 8 + 7);
  EXPECT_TRUE(said.ends_with("no more"));
  EXPECT_EQ(::recv(peer_.get(), said.data(), said.size(), 0), 0);
}

// The peer leaves without a reason while a message to it is in flight.
TEST_F(TcpConnectionTest, FailsIfAPeerLeavesWithAMessageUnsent) {
  peer_.Close();
  connection_->receiver().Receive();
  EXPECT_EQ(connection_->Failure(), std::nullopt);
  EXPECT_EQ(connection_->sender().TryAcquire(), nullptr);
  EXPECT_EQ(connection_->Failure(), "rank 1 is gone: it closed the connection");
}

TEST_F(TcpConnectionTest, TakesNoNoticeThatCarriesData) {
  Say({.kind = kNoticeFrame, .bytes = 1, .tag = {1}}, "x");
  EXPECT_EQ(connection_->receiver().TryPeek(), nullptr);
  EXPECT_EQ(connection_->receiver().notice(), std::nullopt);
  EXPECT_EQ(connection_->Ending(), "rank 1 is gone: it sends something other than messages");
}

// The peer receives the reason in a slot.
TEST_F(TcpConnectionTest, CutsAReasonToThePeersSlotSize) {
  connection_->sender().SendAbort(std::string(1'000, 'r'));
  std::string said(2'000, ' ');
  said.resize(static_cast<std::size_t>(::recv(peer_.get(), said.data(), said.size(), 0)));
  EXPECT_EQ(said.size(), sizeof(FrameHeader) + kSlotBytes);
}

TEST_F(TcpConnectionTest, ReceivesInPlaceOnlyWhatIsAwaitedThere) {
  TcpReceiver& receiver = connection_->receiver();
  std::array<std::byte, 16> place = {};
  // Shorter than the awaited message: arrives in a slot.
  Say({.kind = kMessageFrame, .bytes = 8}, std::string(8, 'a'));
  const Message* message = receiver.TryReceive(place.data(), place.size());
  ASSERT_NE(message, nullptr);
  EXPECT_NE(message->bytes.data(), place.data());
  receiver.Release();
  // Two messages before the first is read: the second must not overwrite it.
  EXPECT_EQ(receiver.TryReceive(place.data(), place.size()), nullptr);
  for (const char letter : {'b', 'c'}) {
    Say({.kind = kMessageFrame, .bytes = 16}, std::string(16, letter));
    receiver.Receive();
  }
  message = receiver.TryReceive(place.data(), place.size());
  ASSERT_NE(message, nullptr);
  EXPECT_EQ(message->bytes.data(), place.data());
  EXPECT_EQ(message->bytes.back(), std::byte{'b'});
  receiver.Release();
  message = receiver.TryPeek();
  ASSERT_NE(message, nullptr);
  EXPECT_EQ(message->bytes.back(), std::byte{'c'});
}

// A connection whose socket has taken only a part of a message.
class TcpConnectionWithPartSent : public testing::Test {
 protected:
  static constexpr std::size_t kLarge = 4 << 20;

  TcpConnectionWithPartSent() {
    int ends[2] = {-1, -1};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    peer_ = UniqueFd(ends[0]);
    connection_.emplace(UniqueFd(ends[1]), 1, kSlots, pool_, turn_);
    std::memset(connection_->sender().TryAcquire(), 'm', kLarge);
    connection_->sender().Commit(kLarge, {});
    EXPECT_TRUE(connection_->sender().HasUnsent());
  }
  // Reads everything that has come.
  std::string Drain() {
    std::string all;
    std::string part(64 << 10, ' ');
    while (true) {
      const ssize_t got = ::recv(peer_.get(), part.data(), part.size(), MSG_DONTWAIT);
      if (got <= 0) return all;
      all += part.substr(0, static_cast<std::size_t>(got));
    }
  }

  SlotPool pool_{kLarge, std::pmr::get_default_resource()};
  ZeroCopySendToken turn_;
  UniqueFd peer_;
  std::optional<TcpConnection> connection_;
};

TEST_F(TcpConnectionWithPartSent, PutsNoNoticeIntoItsMiddle) {
  std::string all;
  while (connection_->sender().HasUnsent()) {
    all += Drain();  // there is room for a notice again
    EXPECT_FALSE(connection_->sender().SendNotice({7}, 4));
    connection_->MarkReady(POLLOUT);
    connection_->sender().Send();
  }
  all += Drain();
  EXPECT_EQ(all.size(), sizeof(FrameHeader) + kLarge);
  EXPECT_EQ(all.find_first_not_of('m', sizeof(FrameHeader)), std::string::npos);
  EXPECT_TRUE(connection_->sender().SendNotice({7}, 4));
  EXPECT_EQ(Drain().size(), sizeof(FrameHeader));
}

TEST_F(TcpConnectionWithPartSent, AbortsWithoutAReasonInTheMiddleOfAMessage) {
  std::string all = Drain();  // the socket has room again
  connection_->sender().SendAbort("no more");
  all += Drain();
  EXPECT_LT(all.size(), sizeof(FrameHeader) + kLarge);
  EXPECT_EQ(all.find_first_not_of('m', sizeof(FrameHeader)), std::string::npos);
  char byte = 0;
  EXPECT_EQ(::recv(peer_.get(), &byte, 1, 0), 0) << "and the connection ends";
}

TEST_F(TcpConnectionWithPartSent, NoticesThatThePeerIsGone) {
  peer_.Close();
  EXPECT_FALSE(connection_->sender().Send()) << "it is full, as far as it knows";
  EXPECT_EQ(connection_->Ending(), std::nullopt);
  connection_->MarkReady(POLLHUP);
  connection_->sender().Send();
  EXPECT_NE(connection_->Failure(), std::nullopt);
}

}  // namespace
}  // namespace espalier::transport
