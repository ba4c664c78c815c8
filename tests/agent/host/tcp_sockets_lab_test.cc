// A real connection over loopback, in a network namespace of its own, whose packets are dropped.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <memory>

#include "agent/flows/guard/verdict_basis.h"
#include "agent/host/tcp_sockets.h"
#include "tests/agent/host/loopback_connection.h"
#include "tests/own_network.h"

namespace espalier::agent {
namespace {

class TcpSocketsLab : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string problem = EnterOwnNetwork();
    if (!problem.empty()) GTEST_SKIP() << problem;
    Run("ip link set lo up");
    connection_ = std::make_unique<LoopbackConnection>(AF_INET);
    ASSERT_EQ(connection_->error(), "");
    Result<TcpSockets> opened = TcpSockets::Open();
    ASSERT_TRUE(opened);
    sockets_ = std::make_unique<TcpSockets>(std::move(*opened));
  }

  static void Run(const std::string& command) { EXPECT_EQ(system(command.c_str()), 0) << command; }
  void DropWhatArrivesAt(std::uint16_t port) {
    Run(
        fmt::format("nft add table ip faults && "
                    "nft add chain ip faults in '{{ type filter hook input priority 0; }}' && "
                    "nft add rule ip faults in tcp dport {} drop",
                    port));
  }
  void Send() {
    const char byte = 'x';
    ASSERT_EQ(::send(connection_->sender(), &byte, 1, MSG_NOSIGNAL), 1);
  }
  std::optional<TcpSocket> Read() {
    const TcpConnection sender = connection_->Sender();
    return sockets_->Read(std::span(&sender, 1)).front();
  }
  // Waits until the kernel has sent something again after its timeout (200 ms and more).
  std::optional<TcpSocket> WaitForTimeout() {
    std::optional<TcpSocket> socket = Read();
    pollfd nothing{.fd = connection_->sender(), .events = 0, .revents = 0};
    for (int i = 0; i < 1'000 && socket && socket->timeouts == 0; ++i) {
      poll(&nothing, 1, 20);
      socket = Read();
    }
    return socket;
  }
  // The basis that the agent of a host finds for the flow that the program announces.
  wire::PathBasis Find(std::uint32_t user) {
    VerdictBasis basis({.sockets =
                            [this](std::span<const TcpConnection> connections) {
                              return sockets_->Read(connections);
                            },
                        .device = {},
                        .repeated_requests = {}});
    const TcpConnection sender = connection_->Sender();
    const FlowSample flow{.announced = {.user = user},
                          .user = user,
                          .source = sender.source,
                          .destination = sender.destination,
                          .protocol = wire::kProtocolTcp,
                          .destination_port = sender.destination_port};
    return basis.Find(TimePoint(std::chrono::hours(1)), flow, sender.source_port,
                      std::chrono::seconds(1));
  }

  std::unique_ptr<LoopbackConnection> connection_;
  std::unique_ptr<TcpSockets> sockets_;
};

TEST_F(TcpSocketsLab, TheKernelConfirmsThatAPeerIsOutOfReach) {
  Send();
  EXPECT_EQ(Find(geteuid()), wire::PathBasis::kClaimed);
  DropWhatArrivesAt(connection_->Sender().destination_port);
  Send();
  const auto socket = WaitForTimeout();
  ASSERT_TRUE(socket);
  EXPECT_GT(socket->timeouts, 0U);
  EXPECT_GT(socket->unacknowledged, 0U);
  EXPECT_GT(socket->repeats, 0U);
  EXPECT_EQ(Find(geteuid()), wire::PathBasis::kKernel);
  EXPECT_EQ(Find(geteuid() + 1), wire::PathBasis::kClaimed);
}

TEST_F(TcpSocketsLab, TheKernelConfirmsThatAcknowledgementsAreLost) {
  DropWhatArrivesAt(connection_->Sender().source_port);
  Send();
  ASSERT_TRUE(WaitForTimeout());
  EXPECT_EQ(Find(geteuid()), wire::PathBasis::kKernel);
}

// Anybody can try to connect to where nobody answers.
TEST_F(TcpSocketsLab, ASocketThatHasNeverBeenConnectedIsUnknown) {
  constexpr std::uint16_t kPort = 9;
  DropWhatArrivesAt(kPort);
  const UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_in address{
      .sin_family = AF_INET, .sin_port = htons(kPort), .sin_addr = {htonl(INADDR_LOOPBACK)}};
  socklen_t size = sizeof(address);
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  ASSERT_EQ(::connect(socket.get(), generic, size), -1);
  ASSERT_EQ(errno, EINPROGRESS);
  ASSERT_EQ(::getsockname(socket.get(), generic, &size), 0);
  TcpConnection connection = connection_->Sender();
  connection.source_port = ntohs(address.sin_port);
  connection.destination_port = kPort;
  EXPECT_FALSE(sockets_->Read(std::span(&connection, 1)).front());
}

TEST_F(TcpSocketsLab, TheKernelConfirmsNothingAfterThePathIsBack) {
  DropWhatArrivesAt(connection_->Sender().destination_port);
  Send();
  ASSERT_TRUE(WaitForTimeout());
  Run("nft flush ruleset");
  std::optional<TcpSocket> socket = Read();
  pollfd nothing{.fd = connection_->sender(), .events = 0, .revents = 0};
  for (int i = 0; i < 1'000 && socket && socket->unacknowledged > 0; ++i) {
    poll(&nothing, 1, 20);
    socket = Read();
  }
  ASSERT_TRUE(socket);
  EXPECT_EQ(socket->unacknowledged, 0U);
  EXPECT_GT(socket->repeats, 0U);
  EXPECT_EQ(Find(geteuid()), wire::PathBasis::kClaimed);
}

}  // namespace
}  // namespace espalier::agent
