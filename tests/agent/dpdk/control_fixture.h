#pragma once

#include <gtest/gtest.h>
#include <poll.h>

#include <cstdlib>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/dpdk/flow_control.h"
#include "agent/local/local_server.h"
#include "tests/agent/dpdk/steered_path.h"
#include "tests/agent/manual_loop.h"
#include "tests/temporary_folder.h"

namespace espalier::dpdk {

// Runs a core, the control thread and an agent in turn. Only while the control thread
// may wait for the agent do they run in parallel.
class Control : public ::testing::Test {
 protected:
  // Without a grace time, as the tests check what happens after it.
  explicit Control(std::uint32_t max_flows = kMaxFlows) : table_(max_flows, 1) {
    ::setenv("ESPALIER_AGENT_GRACE_SECONDS", "0", 1);
  }
  static constexpr std::uint32_t kMaxFlows = 4;

  void OpenAgent() {
    auto agent = agent::LocalServer::Listen(loop_, {.path = socket_}, agent_metrics_);
    ASSERT_TRUE(agent) << agent.error().message;
    agent_ = std::move(*agent);
  }

  template <typename Work>
  void BesideTheAgent(Work&& work) {
    const std::future<void> done = std::async(std::launch::async, std::forward<Work>(work));
    while (done.wait_for(std::chrono::seconds(0)) != std::future_status::ready) Serve();
    Serve();
  }
  void Serve() {
    if (agent_ == nullptr) return;
    pollfd ready{agent_->fd(), POLLIN, 0};
    if (poll(&ready, 1, 1) > 0) agent_->HandleReady();
  }

  // Handles the events of cores, then does the thread's regular work after this time.
  void Tick(Duration later = std::chrono::milliseconds(2)) {
    now_ += later;
    BesideTheAgent([this] {
      while (const std::optional<FlowEvent> event = steering_.events().Pop()) {
        control_.Handle(*event, now_);
      }
      control_.Tick(now_);
    });
    steering_.Outgoing({}, 0);  // cores go on
  }
  void TickUntilConnected() {
    Tick();
    for (int i = 0; i < 100 && Metric("espalier_dpdk_agent_connected") != 1; ++i) {
      Tick(std::chrono::seconds(1));
    }
    ASSERT_EQ(Metric("espalier_dpdk_agent_connected"), 1);
  }

  // Returns the packet's port after steering.
  std::uint16_t Send(const RoceFrame& frame) {
    BuiltFrame built = Build(frame);
    const Frame one{built.bytes.data(), static_cast<std::uint32_t>(built.bytes.size())};
    steering_.Outgoing({&one, 1}, 0);
    EXPECT_EQ(StoredIcrc(built), ReferenceIcrc(built));
    return Get16(built.bytes, built.udp);
  }
  void Receive(const RoceFrame& frame) {
    BuiltFrame built = Build(frame);
    const Frame one{built.bytes.data(), static_cast<std::uint32_t>(built.bytes.size())};
    steering_.Incoming({&one, 1}, 50);
  }

  double Metric(const std::string& name) {
    const std::string text = metrics_.Text();
    const std::size_t at = text.find("\n" + name + " ");
    return at == std::string::npos ? -1 : std::stod(text.substr(at + name.size() + 2));
  }
  std::vector<agent::FlowSample> AgentFlows() {
    const auto samples = agent_->Flows();
    return {samples.begin(), samples.end()};
  }

  TemporaryFolder folder_;
  const std::string socket_ = folder_.path() + "/agent.sock";
  agent::ManualLoop loop_;
  Metrics agent_metrics_;
  Metrics metrics_;
  std::unique_ptr<agent::LocalServer> agent_;
  TimePoint now_{};
  DatapathFlowTable table_;
  PacketSteering steering_{table_, 0, Patch()};
  FlowControl control_{table_, {.agent_socket = socket_}, nullptr, metrics_};
};

inline RoceFrame First(std::uint32_t qpn, std::uint32_t psn = 0) {
  return {.opcode = 0x06, .destination_qpn = qpn, .psn = psn, .payload = Reth(8 << 20, 1024)};
}
inline RoceFrame Middle(std::uint32_t qpn, std::uint32_t psn) {
  return {.destination_qpn = qpn, .psn = psn, .payload = Bytes(1024, 1)};
}
inline RoceFrame Acknowledgement(std::uint32_t psn) {
  return {.source = "10.0.1.1",
          .destination = "10.0.0.1",
          .opcode = 0x11,
          .destination_qpn = 0x99,
          .psn = psn,
          .payload = Aeth(0)};
}

}  // namespace espalier::dpdk
