#include "collective/transport/rendezvous/tcp_socket.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "tests/collective/transport/transport_contract.h"

namespace espalier::transport {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

TEST(TcpSocket, FindsTheOwnAddressOnARoute) {
  for (const char* address : {"127.0.0.1", "::1"}) {
    const auto own = AddressTowards(*ParseAddress(address, 80));
    ASSERT_TRUE(own) << own.error().message;
    EXPECT_EQ(own->ToString(), address);
  }
  const auto none = AddressTowards(*ParseAddress("255.255.255.255", 80));
  ASSERT_FALSE(none);
  EXPECT_NE(none.error().message.find("255.255.255.255:80"), std::string::npos);
}

TEST(TcpSocket, NamesTheEndThatRefuses) {
  const auto listener = Listen(*ParseAddress("::1", 0));
  ASSERT_TRUE(listener) << listener.error().message;
  const std::uint16_t port = *LocalPort(listener->get());
  ::shutdown(listener->get(), SHUT_RDWR);
  const auto refused = Dial(*ParseAddress("::1", 0), *ParseAddress("::1", port), InAWhile());
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("[::1]:" + std::to_string(port)), std::string::npos)
      << refused.error().message;
}

TEST(MillisecondsUntil, WaitsToTheDeadlineAndNotShorter) {
  EXPECT_EQ(MillisecondsUntil(steady_clock::now() - milliseconds(1)), 0);
  EXPECT_EQ(MillisecondsUntil(steady_clock::now() - std::chrono::hours(1'000)), 0);
  EXPECT_EQ(MillisecondsUntil(steady_clock::now() + std::chrono::hours(1'000)), 1'000'000);
  for (int i = 0; i < 100; ++i) {
    const Deadline deadline = steady_clock::now() + milliseconds(1'000) + microseconds(10 * i + 5);
    const int wait = MillisecondsUntil(deadline);
    EXPECT_GE(steady_clock::now() + milliseconds(wait), deadline) << i;
    EXPECT_LE(wait, 1'001);
  }
}

TEST(ParseAddress, TakesDigitsOfBothFamilies) {
  const auto v4 = ParseAddress("127.0.0.1", 0x1234);
  ASSERT_TRUE(v4);
  EXPECT_EQ(v4->storage.ss_family, AF_INET);
  EXPECT_EQ(v4->length, sizeof(sockaddr_in));
  EXPECT_EQ(ntohs(reinterpret_cast<const sockaddr_in*>(&v4->storage)->sin_port), 0x1234);
  const auto v6 = ParseAddress("::1", 0x1234);
  ASSERT_TRUE(v6);
  EXPECT_EQ(v6->storage.ss_family, AF_INET6);
  EXPECT_EQ(v6->length, sizeof(sockaddr_in6));
  EXPECT_EQ(ntohs(reinterpret_cast<const sockaddr_in6*>(&v6->storage)->sin6_port), 0x1234);
  for (const char* wrong : {"", "localhost", "127.0.0.1.", "127.0.0", "[::1]", "::1%lo", "1:2"}) {
    const auto parsed = ParseAddress(wrong, 1);
    ASSERT_FALSE(parsed) << wrong;
    EXPECT_EQ(parsed.error().code, ErrorCode::kInvalidArgument);
  }
}

// A listener at a loopback address, and both ends of connections to it.
class TcpSocketTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    auto listener = Listen(*ParseAddress(GetParam(), 0));
    if (!listener && std::string(GetParam()) == "::1") GTEST_SKIP() << "no IPv6 here";
    ASSERT_TRUE(listener) << listener.error().message;
    listener_ = std::move(*listener);
    place_ = *ParseAddress(GetParam(), *LocalPort(listener_.get()));
    auto dialled = Dial(*ParseAddress(GetParam(), 0), place_, InAWhile());
    ASSERT_TRUE(dialled) << dialled.error().message;
    near_ = std::move(*dialled);
    far_ = Accept(listener_.get());
    ASSERT_TRUE(far_);
  }

  SocketAddress place_;
  UniqueFd listener_;
  UniqueFd near_;
  UniqueFd far_;
};

INSTANTIATE_TEST_SUITE_P(Both, TcpSocketTest, testing::Values("127.0.0.1", "::1"),
                         [](const auto& test) {
                           return std::string(test.param) == "::1" ? "V6" : "V4";
                         });

TEST_P(TcpSocketTest, ConnectsWithinTheHost) {
  EXPECT_TRUE(IsWithinHost(near_.get()));
  EXPECT_TRUE(IsWithinHost(far_.get()));
  EXPECT_FALSE(IsWithinHost(listener_.get()));  // it has no other end
  EXPECT_FALSE(IsStuck(near_.get()));
  EXPECT_EQ(*LocalPort(far_.get()), *LocalPort(listener_.get()));
  EXPECT_FALSE(Accept(listener_.get()));
}

TEST_P(TcpSocketTest, SaysThatAPortIsTaken) {
  const auto again = Listen(place_);
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, ErrorCode::kAlreadyExists);
  const auto from_it = Dial(place_, place_, InAWhile());
  ASSERT_FALSE(from_it);
  EXPECT_EQ(from_it.error().code, ErrorCode::kAlreadyExists);
}

// More than the sockets hold, so that both sides have to wait for one another.
TEST_P(TcpSocketTest, SendsAndReceivesEveryByte) {
  std::string sent(8 << 20, '\0');
  for (std::size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<char>(i * i / 255);
  std::thread sender(
      [&] { ExpectDone(SendWhole(near_.get(), sent.data(), sent.size(), InAWhile())); });
  std::string received(sent.size(), '\0');
  ExpectDone(ReceiveWhole(far_.get(), received.data(), 1, InAWhile()));
  ExpectDone(ReceiveWhole(far_.get(), received.data() + 1, sent.size() - 1, InAWhile()));
  sender.join();
  EXPECT_TRUE(received == sent);
}

TEST_P(TcpSocketTest, ReportsTheEndAndALackOfData) {
  char bytes[2] = {};
  const auto late = ReceiveWhole(far_.get(), bytes, 1, In(milliseconds(1)));
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().message, "timed out");
  ASSERT_TRUE(SendWhole(near_.get(), "x", 1, InAWhile()));
  near_.Close();
  const auto half = ReceiveWhole(far_.get(), bytes, 2, InAWhile());
  ASSERT_FALSE(half);
  EXPECT_EQ(half.error().message, "the connection was closed");
  EXPECT_EQ(bytes[0], 'x');
  const std::string much(1 << 20, 'y');
  Result<void> sent;
  while (sent) sent = SendWhole(far_.get(), much.data(), much.size(), InAWhile());
  EXPECT_EQ(sent.error().code, ErrorCode::kUnavailable);
}

TEST_P(TcpSocketTest, StopsSendingAtTheDeadline) {
  const std::string much(1 << 20, 'y');
  Result<void> sent;
  while (sent) sent = SendWhole(near_.get(), much.data(), much.size(), In(milliseconds(5)));
  EXPECT_EQ(sent.error().message, "timed out");
}

TEST_P(TcpSocketTest, EndsAWaitWithTheErrorOfTheCheck) {
  int checks = 0;
  const auto waited = AwaitSocket(far_.get(), POLLIN, InAWhile(), [&]() -> Result<void> {
    if (++checks < 2) return {};
    return Fail(ErrorCode::kNotFound, "nobody comes");
  });
  ASSERT_FALSE(waited);
  EXPECT_EQ(waited.error().message, "nobody comes");
  EXPECT_EQ(checks, 2);
  const auto late =
      AwaitSocket(far_.get(), POLLIN, In(milliseconds(1)), [] { return Result<void>(); });
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().message, "no answer in time");
  EXPECT_FALSE(AwaitSocket(far_.get(), POLLIN, In(milliseconds(1))));
  ASSERT_TRUE(SendWhole(near_.get(), "x", 1, InAWhile()));
  ExpectDone(AwaitSocket(far_.get(), POLLIN, InAWhile(), {}));
}

// A port that refuses is no reason to try others.
TEST_P(TcpSocketTest, FailsAtOnceWhereNobodyListens) {
  listener_.Close();
  int checks = 0;
  const auto dialled = Dial(*ParseAddress(GetParam(), 0), place_, InAWhile(), [&] {
    ++checks;
    return Result<void>();
  });
  ASSERT_FALSE(dialled);
  EXPECT_EQ(dialled.error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(checks, 0);
}

}  // namespace
}  // namespace espalier::transport
