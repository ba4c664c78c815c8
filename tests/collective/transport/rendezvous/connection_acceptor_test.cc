#include "collective/transport/rendezvous/connection_acceptor.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "collective/transport/rendezvous/tcp_socket.h"
#include "tests/collective/transport/transport_contract.h"

namespace espalier::transport {
namespace {

constexpr std::size_t kMaxCallers = 256;

class ConnectionAcceptorTest : public testing::Test {
 protected:
  void SetUp() override {
    auto listener = Listen(*ParseAddress("127.0.0.1", 0));
    ASSERT_TRUE(listener);
    place_ = *ParseAddress("127.0.0.1", *LocalPort(listener->get()));
    listener_ = std::make_shared<const UniqueFd>(std::move(*listener));
    reception_ = std::make_unique<ConnectionAcceptor>(listener_, std::nullopt);
  }
  UniqueFd CallUp() {
    auto socket = Dial(*ParseAddress("127.0.0.1", 0), *place_, InAWhile());
    EXPECT_TRUE(socket) << socket.error().message;
    return std::move(*socket);
  }
  // Serves the callers so far; expects rank 1.
  void Serve() {
    reception_->Serve([](const Hello& hello) { return hello.from == 1; },
                      [this](const Hello& hello, UniqueFd socket) {
                        welcomed_.push_back(hello.channel);
                        sockets_.push_back(std::move(socket));
                      });
  }
  // Serves until a caller cannot advance further.
  Progress Meet(HandshakeClient& call) {
    Progress progress = Progress::kGoesOn;
    while (progress == Progress::kGoesOn) {
      progress = call.Advance();
      Serve();
    }
    return progress;
  }
  std::size_t Callers() const {
    std::vector<pollfd> polled;
    reception_->AddTo(polled);
    EXPECT_EQ(polled.front().fd, reception_->listener());
    return polled.size() - 1;
  }
  static bool HasHungUp(int socket) {
    char byte = 0;
    return ::recv(socket, &byte, 1, MSG_DONTWAIT) == 0;
  }

  std::optional<SocketAddress> place_;
  std::shared_ptr<const UniqueFd> listener_;
  std::unique_ptr<ConnectionAcceptor> reception_;
  std::vector<int> welcomed_;
  std::vector<UniqueFd> sockets_;
};

TEST_F(ConnectionAcceptorTest, AcceptsExpectedRanksAndDropsOthers) {
  HandshakeClient expected(CallUp(), {.from = 1, .channel = 6}, std::nullopt);
  HandshakeClient stranger(CallUp(), {.from = 2}, std::nullopt);
  EXPECT_EQ(Meet(expected), Progress::kDone);
  EXPECT_EQ(Meet(stranger), Progress::kHungUp);
  // The proof may have come after the last Serve.
  while (welcomed_.empty()) Serve();
  EXPECT_EQ(welcomed_, std::vector<int>{6});
  EXPECT_EQ(Callers(), 0U);
}

TEST_F(ConnectionAcceptorTest, PollsAllUnfinishedHandshakes) {
  const UniqueFd silent = CallUp();
  const UniqueFd another = CallUp();
  Serve();
  EXPECT_EQ(Callers(), 2U);
  EXPECT_TRUE(welcomed_.empty());
}

// The oldest stranger is dropped, not the caller that knows the group.
TEST_F(ConnectionAcceptorTest, MakesRoomForNewCallersWhereStrangersStaySilent) {
  const UniqueFd knowing = CallUp();
  const Hello hello = {.from = 1, .channel = 3};
  ASSERT_TRUE(SendAtOnce(knowing.get(), hello));
  pollfd answered = {.fd = knowing.get(), .events = POLLIN, .revents = 0};
  while (::poll(&answered, 1, 0) == 0) Serve();
  std::vector<UniqueFd> silent;
  for (std::size_t i = 0; i < kMaxCallers; ++i) {
    silent.push_back(CallUp());
    Serve();
  }
  EXPECT_EQ(Callers(), kMaxCallers);
  EXPECT_TRUE(HasHungUp(silent.front().get()));
  EXPECT_FALSE(HasHungUp(silent.back().get()));
  ASSERT_TRUE(SendAtOnce(knowing.get(), Proof()));
  while (welcomed_.empty()) Serve();
  EXPECT_EQ(welcomed_, std::vector<int>{3});
}

// A caller that has shown the group's number is dropped like any other if it says nothing more.
TEST_F(ConnectionAcceptorTest, DropsCallersThatStaySilentForTooLong) {
  reception_ =
      std::make_unique<ConnectionAcceptor>(listener_, std::nullopt, std::chrono::milliseconds(20));
  const UniqueFd silent = CallUp();
  const UniqueFd knowing = CallUp();
  ASSERT_TRUE(SendAtOnce(knowing.get(), Hello{.from = 1}));
  while (Callers() < 2) Serve();
  while (Callers() > 0) Serve();
  EXPECT_TRUE(HasHungUp(silent.get()));
  EXPECT_TRUE(welcomed_.empty());
  HandshakeClient prompt(CallUp(), {.from = 1, .channel = 4}, std::nullopt);
  reception_ = std::make_unique<ConnectionAcceptor>(listener_, std::nullopt);
  EXPECT_EQ(Meet(prompt), Progress::kDone);
  while (welcomed_.empty()) Serve();
  EXPECT_EQ(welcomed_, std::vector<int>{4});
}

// If all callers know the group, the one that came first leaves.
TEST_F(ConnectionAcceptorTest, DropsTheOldestIfAllKnowTheGroup) {
  std::vector<UniqueFd> knowing;
  for (std::size_t i = 0; i <= kMaxCallers; ++i) {
    knowing.push_back(CallUp());
    ASSERT_TRUE(SendAtOnce(knowing.back().get(), Hello{.from = 1, .channel = 2}));
    pollfd answered = {.fd = knowing.back().get(), .events = POLLIN, .revents = 0};
    while (::poll(&answered, 1, 0) == 0) Serve();
  }
  EXPECT_EQ(Callers(), kMaxCallers);
  const auto proves = [&](std::size_t i) {
    SendAtOnce(knowing[i].get(), Proof());
    for (int rounds = 0; rounds < 3; ++rounds) Serve();
    return !welcomed_.empty();
  };
  EXPECT_FALSE(proves(0));
  ASSERT_TRUE(SendAtOnce(knowing[1].get(), Proof()));
  while (welcomed_.empty()) Serve();
}

}  // namespace
}  // namespace espalier::transport
