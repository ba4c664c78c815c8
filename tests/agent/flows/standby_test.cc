// Standby paths: where an agent moves a flow by itself, early, when its path is dead.
#include <gmock/gmock.h>

#include <cstdint>
#include <set>
#include <string>

#include "agent/flows/guard/path_guard.h"
#include "tests/agent/flows/path_guard_fixture.h"

namespace espalier::agent {
namespace {

using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using wire::PathVerdict;

class StandbyTest : public PathGuardTest {
 protected:
  // Opens a flow that makes no progress and has a standby path.
  void StuckFlowWithStandby() {
    Sync();
    Open(1);
    wire::PathSet set = Set(1, 50'000);
    set.paths.push_back({.source_port = 50'003, .weight = 0, .path_id = 3, .encoding = {}});
    Push(Difference(1, 1, {set}));
    bus_.sent.clear();
  }
  std::set<std::uint16_t> ProbedPorts() const {
    std::set<std::uint16_t> ports;
    for (const Probe& probe : probes_.sent) ports.insert(probe.source_port);
    return ports;
  }
};

TEST_F(StandbyTest, IsTakenLongBeforeAnotherPathWouldBe) {
  StuckFlowWithStandby();
  probes_.dead_ports = {50'000};
  Live(100 * kMs);
  EXPECT_EQ(PortOf(1), 50'003);
  EXPECT_EQ(ProbedPorts(), (std::set<std::uint16_t>{50'000, 50'003}));
  const auto health = Health();
  ASSERT_THAT(health, SizeIs(1));
  EXPECT_EQ(health[0].verdict, PathVerdict::kLocallyRerouted);
  EXPECT_EQ(health[0].source_port, 50'003);
  EXPECT_EQ(health[0].path_id, 0u);  // the path that was left
  EXPECT_EQ(metrics_.Text().find("espalier_agent_standby_moves_total 0"), std::string::npos);
}

TEST_F(StandbyTest, IsTakenWithoutAController) {
  StuckFlowWithStandby();
  controller_alive_ = false;
  source_.flows.at(wire::LocalFlowId(1)).remaining_bytes = 0;
  Live(10 * kSecond);  // the controller has gone, and its path lease has not
  source_.flows.at(wire::LocalFlowId(1)).remaining_bytes = 1 << 20;
  probes_.dead_ports = {50'000};
  Live(100 * kMs);
  EXPECT_EQ(PortOf(1), 50'003);
}

TEST_F(StandbyTest, OneLostProbeIsNotEnough) {
  StuckFlowWithStandby();
  probes_.dead_ports = {50'000};
  Live(45 * kMs);  // the first check is running
  ASSERT_THAT(probes_.sent, Not(IsEmpty()));
  probes_.dead_ports = {};
  Live(100 * kMs);
  EXPECT_EQ(PortOf(1), 50'000);
  EXPECT_THAT(Health(), IsEmpty());
}

// With a queue of 50 ms, a flow that repeats a lost packet stands still for so long, and so do its
// probes.
TEST_F(StandbyTest, LongRoundTripsAreNoEvidence) {
  StuckFlowWithStandby();
  source_.flows.at(wire::LocalFlowId(1)).rtt_us = 50'000;
  probes_.dead_ports = {50'000};
  Live(145 * kMs);
  EXPECT_THAT(probes_.sent, IsEmpty());
  Live(280 * kMs);  // two checks of 100 ms
  EXPECT_EQ(PortOf(1), 50'003);
}

// Programs tell the progress of their connections every 20 ms or so.
TEST_F(StandbyTest, TcpIsGivenMoreTimeAndThenTheStandby) {
  StuckFlowWithStandby();
  source_.flows.at(wire::LocalFlowId(1)).protocol = wire::kProtocolTcp;
  probes_.dead_ports = {50'000};
  Live(55 * kMs);
  EXPECT_THAT(probes_.sent, IsEmpty());
  Live(100 * kMs);
  EXPECT_EQ(PortOf(1), 50'003);
  const auto health = Health();
  ASSERT_THAT(health, SizeIs(1));
  EXPECT_FALSE(health[0].answered);
}

// The path answers, but nobody acknowledges what TCP has sent again.
TEST_F(StandbyTest, TcpWhoseAcknowledgementsAreLostGetsTheStandby) {
  StuckFlowWithStandby();
  source_.flows.at(wire::LocalFlowId(1)).protocol = wire::kProtocolTcp;
  Live(220 * kMs);
  EXPECT_EQ(PortOf(1), 50'000);  // it has repeated nothing
  Retry();
  Live(40 * kMs);
  EXPECT_EQ(PortOf(1), 50'000);  // the repetition may yet be acknowledged
  Live(100 * kMs);
  EXPECT_EQ(PortOf(1), 50'003);
  const auto health = Health();
  ASSERT_THAT(health, SizeIs(1));
  EXPECT_EQ(health[0].verdict, PathVerdict::kLocallyRerouted);
  EXPECT_TRUE(health[0].answered);
}

TEST_F(StandbyTest, TcpThatIsAcknowledgedStays) {
  StuckFlowWithStandby();
  FlowSample& flow = source_.flows.at(wire::LocalFlowId(1));
  flow.protocol = wire::kProtocolTcp;
  for (int i = 0; i < 20; ++i) {
    Live(150 * kMs);
    Retry();
    Live(50 * kMs);
    flow.sent_bytes += 1000;
  }
  EXPECT_EQ(PortOf(1), 50'000);
}

TEST_F(StandbyTest, IsNotTakenIfItIsDeadItself) {
  StuckFlowWithStandby();
  probes_.dead_ports = {50'000, 50'003};
  Live(200 * kMs);
  EXPECT_EQ(PortOf(1), 50'000);
  Live(400 * kMs);  // the long check finds another path
  EXPECT_NE(PortOf(1), 50'000);
  EXPECT_NE(PortOf(1), 50'003);
}

TEST_F(StandbyTest, IsNotTakenWhileThePathAnswers) {
  StuckFlowWithStandby();
  Live(5 * kSecond);
  EXPECT_EQ(PortOf(1), 50'000);
}

TEST_F(StandbyTest, ProgressEndsTheSearch) {
  StuckFlowWithStandby();
  probes_.dead_ports = {50'000};
  for (int i = 0; i < 50; ++i) {
    source_.flows.at(wire::LocalFlowId(1)).sent_bytes += 1000;
    Live(20 * kMs);
  }
  EXPECT_EQ(PortOf(1), 50'000);
  EXPECT_THAT(probes_.sent, IsEmpty());
}

TEST_F(StandbyTest, IsFirstChoiceWhenOnlyRetriesTell) {
  StuckFlowWithStandby();
  probes_.answers = false;
  Live(200 * kMs);
  Retry();
  Live(400 * kMs);
  EXPECT_EQ(PortOf(1), 50'003);
}

TEST_F(StandbyTest, ZeroTurnsEarlyChecksOff) {
  AgentOptions options;
  options.guard.standby_after = Duration::zero();
  Sync(options);
  Open(1);
  wire::PathSet set = Set(1, 50'000);
  set.paths.push_back({.source_port = 50'003, .weight = 0, .path_id = 3, .encoding = {}});
  Push(Difference(1, 1, {set}));
  probes_.dead_ports = {50'000};
  Live(280 * kMs);
  EXPECT_THAT(probes_.sent, IsEmpty());
  Live(200 * kMs);
  EXPECT_EQ(PortOf(1), 50'003);  // it is still the best choice
}

// All of a host's paths die, flap, or are said to be dead by a program: the work stays bounded.
TEST_F(StandbyTest, FlapsAreFollowedWithinTheHysteresisOnly) {
  StuckFlowWithStandby();
  int moves = 0;
  std::uint16_t last = PortOf(1);
  for (int i = 0; i < 200; ++i) {
    probes_.dead_ports = {last};
    Live(50 * kMs);
    moves += PortOf(1) != last ? 1 : 0;
    last = PortOf(1);
  }
  EXPECT_GE(moves, 1);
  EXPECT_LE(moves, 12);  // in 10 s: the interval doubles up to 5 s
}

}  // namespace
}  // namespace espalier::agent
