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
    reception_ = std::make_unique<ConnectionAcceptor>(
        std::make_shared<const UniqueFd>(std::move(*listener)), std::nullopt);
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

}  // namespace
}  // namespace espalier::transport
