// What an agent reports of a real connection that a program announces through the local API.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <future>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "agent/host/tcp_sockets.h"
#include "agent/local/espalier_agent.h"
#include "agent/local/local_server.h"
#include "tests/agent/agent_fixture.h"
#include "tests/agent/host/loopback_connection.h"
#include "tests/own_network.h"

namespace espalier::agent {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;
using wire::PathBasis;

// The agent's time is the test's, the kernel's is real.
class AnnouncedConnectionLab : public AgentTest {
 protected:
  void SetUp() override {
    const std::string problem = EnterOwnNetwork();
    if (!problem.empty()) GTEST_SKIP() << problem;
    ASSERT_EQ(system("ip link set lo up"), 0);
    // Flows of loopback addresses are not reported.
    ASSERT_EQ(system("ip address add 10.9.9.1/32 dev lo"), 0);
    connection_ = std::make_unique<LoopbackConnection>(AF_INET, 0x0A09'0901);
    ASSERT_EQ(connection_->error(), "");
    ASSERT_NE(mkdtemp(folder_.data()), nullptr);
    auto server = LocalServer::Listen(loop_, {.path = folder_ + "/agent.sock"}, metrics_);
    ASSERT_TRUE(server) << server.error().message;
    server_ = std::move(*server);
    Result<TcpSockets> opened = TcpSockets::Open();
    ASSERT_TRUE(opened);
    sockets_ = std::make_unique<TcpSockets>(std::move(*opened));
    Announce();
    StartAgent();
  }
  void TearDown() override {
    espalier_agent_close(program_);
    agent_.reset();
    server_.reset();
    std::filesystem::remove_all(folder_);
  }

  void Announce() {
    auto connecting = std::async(std::launch::async, [&] {
      return espalier_agent_connect((folder_ + "/agent.sock").c_str(), &program_);
    });
    while (connecting.wait_for(std::chrono::seconds(0)) != std::future_status::ready) Turn(1);
    ASSERT_EQ(connecting.get(), 0);
    const TcpConnection ends = connection_->Sender();
    espalier_flow_desc description{};
    std::ranges::copy(ends.source.bytes(), description.source);
    std::ranges::copy(ends.destination.bytes(), description.destination);
    description.protocol = IPPROTO_TCP;
    description.max_paths = 1;
    description.movable = 1;
    description.source_port = ends.source_port;
    description.destination_port = ends.destination_port;
    description.remaining_bytes = 1 << 20;
    ASSERT_EQ(espalier_flow_open(program_, &description, &flow_), 0);
    Turn(0);
  }
  void Turn(int milliseconds) {
    pollfd ready{server_->fd(), POLLIN, 0};
    while (poll(&ready, 1, milliseconds) > 0) server_->HandleReady();
  }
  void StartAgent() {
    AgentOptions options;
    options.name = "h0";
    options.instance = 42;
    options.guard.transports.sockets = [this](std::span<const TcpConnection> connections) {
      return sockets_->Read(connections);
    };
    options.sampler.transports = options.guard.transports;
    options.meter.elephant_bytes = 1;
    agent_ = std::make_unique<Agent>(options, loop_, bus_, *server_, *server_, probes_, trains_,
                                     metrics_);
    agent_->Start();
    Welcome();
    wire::PathSet set;
    set.flow = wire::LocalFlowId(espalier_flow_id(flow_));
    set.paths = {{.source_port = connection_->Sender().source_port, .encoding = {}}};
    Push(Full(1, 1, {set}));
    Live(kSecond);
    bus_.sent.clear();
  }
  void ClaimRetries() { espalier_flow_transport(flow_, ++retries_, 0); }
  void DropWhatArrives() {
    const std::string command = fmt::format(
        "nft add table ip faults && "
        "nft add chain ip faults in '{{ type filter hook input priority 0; }}' && "
        "nft add rule ip faults in tcp dport {} drop",
        connection_->Sender().destination_port);
    ASSERT_EQ(system(command.c_str()), 0);
    const char byte = 'x';
    ASSERT_EQ(::send(connection_->sender(), &byte, 1, MSG_NOSIGNAL), 1);
  }
  void WaitForTimeout() {
    const TcpConnection ends = connection_->Sender();
    pollfd nothing{.fd = connection_->sender(), .events = 0, .revents = 0};
    for (int i = 0; i < 1'000; ++i) {
      const auto socket = sockets_->Read(std::span(&ends, 1)).front();
      if (socket && socket->timeouts > 0) return;
      poll(&nothing, 1, 20);
    }
    FAIL() << "the kernel repeats nothing";
  }
  std::vector<wire::FlowHealth> Health() {
    std::vector<wire::FlowHealth> all;
    for (const wire::PathHealth& health : bus_.Take<wire::PathHealth>()) {
      all.insert(all.end(), health.flows.begin(), health.flows.end());
    }
    return all;
  }

  std::string folder_ = ::testing::TempDir() + "/espalier-lab-XXXXXX";
  std::unique_ptr<LoopbackConnection> connection_;
  std::unique_ptr<LocalServer> server_;
  std::unique_ptr<TcpSockets> sockets_;
  espalier_agent* program_ = nullptr;
  espalier_flow* flow_ = nullptr;
  std::uint32_t retries_ = 0;
};

TEST_F(AnnouncedConnectionLab, ALieAboutASoundConnectionIsAClaimAndNoVote) {
  for (int i = 0; i < 10; ++i) {
    ClaimRetries();
    Live(100 * kMs);
  }
  const auto health = Health();
  ASSERT_FALSE(health.empty());
  for (const wire::FlowHealth& each : health) EXPECT_EQ(each.basis, PathBasis::kClaimed);
  EXPECT_EQ(health[0].verdict, wire::PathVerdict::kLocallyRerouted);
}

TEST_F(AnnouncedConnectionLab, TheKernelConfirmsThatAConnectionIsStuck) {
  DropWhatArrives();
  WaitForTimeout();
  Live(kSecond);
  const auto votes = Health();  // the program has claimed nothing yet
  ASSERT_THAT(votes, SizeIs(1));
  EXPECT_EQ(votes[0].verdict, wire::PathVerdict::kGood);
  EXPECT_EQ(votes[0].basis, PathBasis::kKernel);
  EXPECT_GT(votes[0].retries, 0U);
  ClaimRetries();
  std::optional<wire::FlowHealth> left;
  for (int i = 0; i < 500 && !left; ++i) {
    Live(10 * kMs);
    for (const wire::FlowHealth& each : Health()) {
      if (each.verdict == wire::PathVerdict::kLocallyRerouted) left = each;
    }
  }
  ASSERT_TRUE(left);
  EXPECT_EQ(left->basis, PathBasis::kKernel);
  EXPECT_EQ(left->left_port, connection_->Sender().source_port);
}

TEST_F(AnnouncedConnectionLab, ASoundConnectionThatClaimsNothingCostsNoMessage) {
  Live(2 * kSecond);
  EXPECT_THAT(Health(), IsEmpty());
}

}  // namespace
}  // namespace espalier::agent
