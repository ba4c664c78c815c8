#include "agent/flows/guard/repeat_watch.h"

#include <gmock/gmock.h>

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "tests/agent/flows/path_guard_fixture.h"

namespace espalier::agent {
namespace {

using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using wire::PathVerdict;

constexpr std::uint16_t kPort = 50'000;
constexpr std::uint16_t kStandby = 50'003;

// A queue pair that only answers, on a NIC that counts repeated requests.
class RepeatWatchTest : public PathGuardTest {
 protected:
  void Answering(int flows = 1, bool has_standby = true) {
    AgentOptions options;
    options.guard.transports.repeated_requests = [this](const IpAddress&) {
      ++reads_;
      return repeats_;
    };
    options.meter.elephant_bytes = 1;
    Sync(options);
    wire::PathPush push = Difference(1, 1, {});
    for (int i = 1; i <= flows; ++i) {
      const auto id = static_cast<std::uint64_t>(i);
      FlowSample& flow = Open(id, 1'000);
      flow.local_qpn = 100 + static_cast<std::uint32_t>(i);
      flow.remote_qpn = 7;
      const auto shift = static_cast<std::uint16_t>(10 * (i - 1));
      wire::PathSet set = Set(id, static_cast<std::uint16_t>(kPort + shift));
      if (has_standby) {
        set.paths.push_back({.source_port = static_cast<std::uint16_t>(kStandby + shift),
                             .weight = 0,
                             .path_id = 3,
                             .encoding = {}});
      }
      push.sets.push_back(set);
    }
    Live(100 * kMs);
    for (auto& [id, flow] : source_.flows) flow.remaining_bytes = 0;
    Push(push);
    Live(kSecond);
    bus_.sent.clear();
    probes_.sent.clear();
  }
  std::set<std::uint16_t> ProbedPorts() const {
    std::set<std::uint16_t> ports;
    for (const Probe& probe : probes_.sent) ports.insert(probe.source_port);
    return ports;
  }

  std::uint32_t repeats_ = 5;
  int reads_ = 0;
};

TEST_F(RepeatWatchTest, AnAnsweringEndGoesToItsStandbyWithoutAController) {
  Answering();
  controller_alive_ = false;
  Live(10 * kSecond);
  EXPECT_THAT(probes_.sent, IsEmpty()) << "no request is repeated";
  probes_.dead_ports = {kPort};
  ++repeats_;
  Live(200 * kMs);
  EXPECT_EQ(PortOf(1), kStandby);
  EXPECT_EQ(ProbedPorts(), (std::set<std::uint16_t>{kPort, kStandby}));
  EXPECT_EQ(metrics_.Text().find("espalier_agent_standby_moves_total 0"), std::string::npos);
}

TEST_F(RepeatWatchTest, TheMoveIsReported) {
  Answering();
  probes_.dead_ports = {kPort};
  ++repeats_;
  Live(200 * kMs);
  const auto health = Health();
  ASSERT_THAT(health, Not(IsEmpty()));
  EXPECT_EQ(health[0].verdict, PathVerdict::kLocallyRerouted);
  EXPECT_EQ(health[0].source_port, kStandby);
  EXPECT_EQ(health[0].path_id, kPort % 4U);
}

TEST_F(RepeatWatchTest, RepeatedRequestsAloneMoveNothing) {
  Answering();
  for (int i = 0; i < 100; ++i) {  // packets are lost elsewhere for 10 s
    ++repeats_;
    Live(100 * kMs);
  }
  EXPECT_EQ(PortOf(1), kPort);
  EXPECT_THAT(Health(), IsEmpty());
  EXPECT_THAT(probes_.sent, Not(IsEmpty()));
  EXPECT_LE(probes_.sent.size(), 2U * 8) << "checks without a result become rarer";
}

TEST_F(RepeatWatchTest, ARepeatedRequestCountsForHalfASecond) {
  Answering();
  ++repeats_;
  Live(kSecond);
  EXPECT_THAT(probes_.sent, Not(IsEmpty()));
  probes_.sent.clear();
  Live(20 * kSecond);
  EXPECT_THAT(probes_.sent, IsEmpty());
}

TEST_F(RepeatWatchTest, OnlyTheEndsWhosePathIsDeadMove) {
  Answering(4);
  probes_.dead_ports = {kPort + 10};
  ++repeats_;
  Live(300 * kMs);
  EXPECT_EQ(PortOf(1), kPort);
  EXPECT_EQ(PortOf(2), kStandby + 10);
  EXPECT_EQ(PortOf(3), kPort + 20);
  EXPECT_EQ(PortOf(4), kPort + 30);
}

TEST_F(RepeatWatchTest, OneLostProbeIsNotEnough) {
  Answering();
  probes_.dead_ports = {kPort};
  ++repeats_;
  for (int i = 0; i < 1'000 && probes_.sent.empty(); ++i) Live(kMs);
  ASSERT_THAT(probes_.sent, Not(IsEmpty()));
  probes_.dead_ports = {};
  Live(kSecond);
  EXPECT_EQ(PortOf(1), kPort);
}

TEST_F(RepeatWatchTest, NothingMovesWhereNoProbeIsAnsweredOrNoStandbyIsKnown) {
  Answering();
  probes_.answers = false;
  ++repeats_;
  Live(kSecond);
  EXPECT_EQ(PortOf(1), kPort);
}

TEST_F(RepeatWatchTest, WithoutStandbyNothingIsProbed) {
  Answering(1, /*has_standby=*/false);
  probes_.dead_ports = {kPort};
  ++repeats_;
  Live(kSecond);
  EXPECT_EQ(PortOf(1), kPort);
  EXPECT_THAT(probes_.sent, IsEmpty());
}

// The device counts the repeated requests of all its queue pairs.
TEST_F(RepeatWatchTest, QueuePairsThatSendAreNoConcern) {
  Answering();
  source_.flows.at(wire::LocalFlowId(1)).remaining_bytes = 1 << 20;
  for (int i = 0; i < 100; ++i) {
    ++repeats_;
    source_.flows.at(wire::LocalFlowId(1)).sent_bytes += 1'000;
    Live(20 * kMs);
  }
  EXPECT_THAT(probes_.sent, IsEmpty());
}

TEST_F(RepeatWatchTest, ReadsTheDeviceAtIntervalsAndNotWithoutQuietFlows) {
  Answering(4);
  reads_ = 0;
  Live(kSecond);
  EXPECT_GT(reads_, 10);
  EXPECT_LE(reads_, kSecond / RepeatWatch::kInterval + 1);
  for (auto& [id, flow] : source_.flows) flow.remaining_bytes = 1'000;  // none is quiet
  Live(100 * kMs);
  reads_ = 0;
  Live(kSecond);
  EXPECT_EQ(reads_, 0);
}

}  // namespace
}  // namespace espalier::agent
