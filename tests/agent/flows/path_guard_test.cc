#include "agent/flows/guard/path_guard.h"

#include <gmock/gmock.h>

#include "tests/agent/flows/path_guard_fixture.h"

namespace espalier::agent {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;
using wire::PathVerdict;

TEST_F(PathGuardTest, DeadPathIsLeftForOneThatAnswers) {
  StuckFlow(50'000);
  probes_.dead_ports = {50'000};
  Live(280 * kMs);
  EXPECT_THAT(probes_.sent, IsEmpty());
  Live(200 * kMs);
  const std::uint16_t drawn = PortOf(1);
  EXPECT_NE(drawn, 50'000);
  EXPECT_GE(drawn, 0xC000);
  EXPECT_EQ(actuator_.last.at(wire::LocalFlowId(1)).reason, wire::PathReason::kPathDead);
  const auto health = Health();
  ASSERT_THAT(health, SizeIs(1));
  EXPECT_EQ(health[0].verdict, PathVerdict::kLocallyRerouted);
  EXPECT_EQ(health[0].source_port, drawn);
  EXPECT_EQ(health[0].path_id, 50'000u % 4);
  for (const Probe& probe : probes_.sent) EXPECT_EQ(probe.ttl, 3);
  // Progress ends it.
  source_.flows.at(wire::LocalFlowId(1)).sent_bytes += 1000;
  Live(20 * kMs);
  ASSERT_THAT(Health(), SizeIs(1));
  EXPECT_EQ(PortOf(1), drawn);
}

TEST_F(PathGuardTest, SilenceOfAllProbesProvesNothing) {
  StuckFlow(50'000);
  probes_.answers = false;
  Live(5 * kSecond);
  EXPECT_EQ(PortOf(1), 50'000);
  EXPECT_THAT(Health(), IsEmpty());
}

TEST_F(PathGuardTest, PathThatAnswersIsKept) {
  StuckFlow(50'000);
  Live(5 * kSecond);
  EXPECT_EQ(PortOf(1), 50'000);
  EXPECT_THAT(Health(), IsEmpty());
}

TEST_F(PathGuardTest, GrowingRetriesAreEnoughWithoutAnyAnswers) {
  StuckFlow(50'000);
  probes_.answers = false;
  Live(200 * kMs);
  Retry();
  Live(300 * kMs);
  EXPECT_NE(PortOf(1), 50'000);
}

TEST_F(PathGuardTest, ReroutesUntilThereIsProgressButNotTooOften) {
  StuckFlow(50'000);
  probes_.answers = false;
  Retry();
  std::set<std::uint16_t> drawn;
  TimePoint last{};
  int local_reroutes = 0;
  for (int i = 0; i < 3000; ++i) {
    bus_.Deliver(wire::Heartbeat{}, kController);
    Step(kMs);
    if (drawn.insert(PortOf(1)).second && local_reroutes++ > 0) {
      EXPECT_GE(loop_.Now() - last, 200 * kMs);
      last = loop_.Now();
    }
  }
  EXPECT_GE(drawn.size(), 4u);
  EXPECT_LE(drawn.size(), 12u);
}

TEST_F(PathGuardTest, IdleFlowIsNotChecked) {
  StuckFlow(50'000);
  source_.flows.at(wire::LocalFlowId(1)).remaining_bytes = 0;
  probes_.dead_ports = {50'000};
  Live(2 * kSecond);
  EXPECT_THAT(probes_.sent, IsEmpty());
}

TEST_F(PathGuardTest, FlowOnEcmpIsMovedToo) {
  Sync();
  Open(1);
  probes_.dead_ports = {40'001};
  Live(kSecond);
  EXPECT_GE(PortOf(1), 0xC000);
  ASSERT_THAT(Health(), SizeIs(1));
}

TEST_F(PathGuardTest, LeavesAFlowAloneThatOperatorsDoNotWantSteered) {
  Sync();
  Open(1);
  bus_.Deliver(wire::PathPush{.epoch = 1,
                              .generation = 1,
                              .full = true,
                              .sets = {},
                              .withdrawn = {wire::LocalFlowId(1)},
                              .unsteered = {wire::LocalFlowId(1)}},
               kController);
  probes_.dead_ports = {40'001};
  Live(2 * kSecond);
  EXPECT_LT(PortOf(1), 0xC000);
  EXPECT_THAT(Health(), IsEmpty());
}

TEST_F(PathGuardTest, WorksWithoutAController) {
  StuckFlow(50'000);
  source_.flows.at(wire::LocalFlowId(1)).remaining_bytes = 0;
  Step(5 * kSecond);
  ASSERT_EQ(agent_->state(), AgentState::kOrphan);
  source_.flows.at(wire::LocalFlowId(1)).remaining_bytes = 1000;
  probes_.dead_ports = {50'000};
  Step(kSecond);
  EXPECT_NE(PortOf(1), 50'000);
  EXPECT_THAT(Health(), IsEmpty());
}

TEST_F(PathGuardTest, ReportsTheDrawnPortToAReturningController) {
  StuckFlow(50'000);
  probes_.dead_ports = {50'000};
  Step(5 * kSecond);
  const std::uint16_t drawn = PortOf(1);
  ASSERT_NE(drawn, 50'000);
  bus_.sent.clear();
  Welcome(kController);
  const auto reports = bus_.Take<wire::FlowReport>();
  ASSERT_THAT(reports, SizeIs(1));
  EXPECT_FALSE(reports[0].opened.at(0).steered);
  EXPECT_THAT(reports[0].opened[0].path_ports, ::testing::ElementsAre(drawn));
}

TEST_F(PathGuardTest, FlowThatCannotMoveStays) {
  Sync();
  Open(1).movable = false;
  Push(Difference(1, 1, {Set(1, 50'000)}));
  probes_.dead_ports = {50'000};
  Live(2 * kSecond);
  EXPECT_EQ(PortOf(1), 50'000);
}

TEST_F(PathGuardTest, RefusedRerouteIsReportedAsDead) {
  StuckFlow(50'000);
  probes_.dead_ports = {50'000};
  actuator_.refused = {wire::LocalFlowId(1)};
  Live(kSecond);
  const auto health = Health();
  ASSERT_THAT(health, SizeIs(1));
  EXPECT_EQ(health[0].verdict, PathVerdict::kDead);
}

TEST_F(PathGuardTest, OnlyTheDeadPathsOfASplitFlowAreReplaced) {
  Sync();
  Open(1);
  wire::PathSet set = Set(1, 50'000);
  set.paths.push_back({.source_port = 50'001, .path_id = 9, .encoding = {}});
  Push(Difference(1, 1, {set}));
  Health();
  probes_.dead_ports = {50'001};
  Live(kSecond);
  const wire::PathSet& now = actuator_.last.at(wire::LocalFlowId(1));
  ASSERT_THAT(now.paths, SizeIs(2));
  EXPECT_EQ(now.paths[0].source_port, 50'000);
  EXPECT_NE(now.paths[1].source_port, 50'001);
  const auto health = Health();
  ASSERT_THAT(health, SizeIs(1));
  EXPECT_EQ(health[0].path_id, 9u);
  EXPECT_EQ(health[0].source_port, now.paths[1].source_port);
}

class SplitFlowTest : public PathGuardTest {
 protected:
  // Opens a flow over three paths, all with bytes in flight.
  void StartSplit() {
    Sync();
    Open(1, std::uint64_t{1} << 40);
    wire::PathSet set = Set(1, kPorts[0]);
    set.paths.push_back({.source_port = kPorts[1], .path_id = 8, .encoding = {}});
    set.paths.push_back({.source_port = kPorts[2], .path_id = 9, .encoding = {}});
    Push(Difference(1, 1, {set}));
    for (const std::uint16_t port : kPorts) {
      Flow().ports.push_back({.source_port = port, .outstanding_bytes = 1'000'000});
    }
    bus_.sent.clear();
  }
  FlowSample& Flow() { return source_.flows.at(wire::LocalFlowId(1)); }
  // All subflows except these make progress.
  void Run(Duration span, const std::set<std::uint16_t>& stuck) {
    for (Duration done{}; done < span; done += 10 * kMs) {
      for (PortProgress& port : Flow().ports) {
        if (stuck.contains(port.source_port)) continue;
        port.sent_bytes += 1000;
        Flow().sent_bytes += 1000;
      }
      Live(10 * kMs);
      // Connections take the ports in force.
      for (std::size_t i = 0; i < 3; ++i) {
        const std::uint16_t now = actuator_.last.at(wire::LocalFlowId(1)).paths[i].source_port;
        if (Flow().ports[i].source_port == now) continue;
        Flow().ports[i] = {.source_port = now, .outstanding_bytes = 1'000'000};
      }
    }
  }
  std::vector<std::uint16_t> Ports() {
    std::vector<std::uint16_t> ports;
    for (const PortProgress& port : Flow().ports) ports.push_back(port.source_port);
    return ports;
  }

  static constexpr std::uint16_t kPorts[] = {50'000, 50'001, 50'002};
};

TEST_F(SplitFlowTest, LeavesOnlyTheDeadPath) {
  StartSplit();
  probes_.dead_ports = {50'001};
  Run(kSecond, {50'001});
  const auto ports = Ports();
  EXPECT_EQ(ports[0], 50'000);
  EXPECT_NE(ports[1], 50'001);
  EXPECT_EQ(ports[2], 50'002);
  const auto health = Health();
  ASSERT_THAT(health, SizeIs(2));
  EXPECT_EQ(health[0].verdict, PathVerdict::kLocallyRerouted);
  EXPECT_EQ(health[0].path_id, 8u);
  EXPECT_EQ(health[0].source_port, ports[1]);
  EXPECT_EQ(health[1].verdict, PathVerdict::kGood);  // there is progress again
  for (const Probe& probe : probes_.sent) {
    EXPECT_NE(probe.source_port, 50'000);
    EXPECT_NE(probe.source_port, 50'002);
  }
}

// A source may tell bytes in flight of a subflow long after they have arrived: completions that
// nobody asked for, or no report while there is nothing to send.
TEST_F(SplitFlowTest, SubflowsOfAnIdleFlowAreNotChecked) {
  StartSplit();
  Run(kSecond, {});
  for (PortProgress& port : Flow().ports) ++port.retries;
  Flow().remaining_bytes = Flow().outstanding_bytes = 0;
  Run(3 * kSecond, {kPorts[0], kPorts[1], kPorts[2]});
  EXPECT_THAT(Ports(), ::testing::ElementsAreArray(kPorts));
  EXPECT_THAT(probes_.sent, IsEmpty());
}

TEST_F(SplitFlowTest, RetriesOfOneSubflowAreEnoughWithoutAnyAnswers) {
  StartSplit();
  probes_.answers = false;
  Run(2 * kSecond, {50'002});
  EXPECT_EQ(Ports()[2], 50'002);  // silence proves nothing
  ++Flow().ports[0].retries;      // nor do the retries of a part that goes on
  ++Flow().retries;
  Run(2 * kSecond, {50'002});
  EXPECT_EQ(Ports()[2], 50'002);
  ++Flow().ports[2].retries;
  Run(6 * kSecond, {50'002});
  EXPECT_NE(Ports()[2], 50'002);
  EXPECT_EQ(Ports()[0], 50'000);
  EXPECT_EQ(Ports()[1], 50'001);
}

TEST_F(SplitFlowTest, SubflowWithNothingToSendIsNotStuck) {
  StartSplit();
  Flow().ports[1].outstanding_bytes = 0;
  probes_.dead_ports = {50'001};
  Run(2 * kSecond, {50'001});
  EXPECT_EQ(Ports()[1], 50'001);
  EXPECT_THAT(probes_.sent, IsEmpty());
}

TEST_F(SplitFlowTest, APathThatCannotBeLeftIsReportedByItsOwnNumber) {
  StartSplit();
  probes_.dead_ports = {50'002};
  actuator_.refused = {wire::LocalFlowId(1)};
  Run(2 * kSecond, {50'002});
  const auto health = Health();
  ASSERT_THAT(health, SizeIs(1));
  EXPECT_EQ(health[0].verdict, PathVerdict::kDead);
  EXPECT_EQ(health[0].path_id, 9u);
  EXPECT_EQ(health[0].source_port, 50'002);
}

// A connection on a former port drains, or its program ends it.
TEST_F(SplitFlowTest, SubflowsOnFormerPortsAreIgnored) {
  StartSplit();
  Flow().ports.push_back({.source_port = 49'999, .outstanding_bytes = 1});
  Run(2 * kSecond, {49'999});
  EXPECT_THAT(probes_.sent, IsEmpty());
}

// A port that has failed on trial waits for its next check, but other subflows do not.
TEST_F(SplitFlowTest, EachSubflowIsCheckedInItsOwnTime) {
  StartSplit();
  probes_.dead_ports = {50'001};
  for (int port = 0xC000; port <= 0xFFFF; ++port) {  // whatever it takes next is dead, too
    if (port != 50'000 && port != 50'002) {
      probes_.dead_ports.insert(static_cast<std::uint16_t>(port));
    }
  }
  probes_.answers = false;
  for (int i = 0; i < 20; ++i) {
    ++Flow().ports[1].retries;
    Run(100 * kMs, {Ports()[1]});
  }
  const auto moves = Health().size();
  EXPECT_GE(moves, 2U);
  EXPECT_LE(moves, 5U);  // ever more rarely
  const std::uint16_t tried = Ports()[1];
  probes_.answers = true;
  probes_.dead_ports.insert(50'002);
  ++Flow().ports[2].retries;
  Run(600 * kMs, {tried, 50'002});
  EXPECT_NE(Ports()[2], 50'002);
  EXPECT_EQ(Ports()[0], 50'000);
}

TEST_F(PathGuardTest, ControllersNextPushOverrides) {
  StuckFlow(50'000);
  probes_.dead_ports = {50'000};
  Live(500 * kMs);
  ASSERT_NE(PortOf(1), 50'000);
  Push(Difference(1, 2, {Set(1, 50'007)}));
  EXPECT_EQ(PortOf(1), 50'007);
}

// The order was under way when the controller heard that the flow has left the port.
TEST_F(PathGuardTest, AnOrderThatCrossedTheReportDoesNotBringADeadPathBack) {
  StuckFlow(50'000);
  probes_.dead_ports = {50'000};
  while (PortOf(1) == 50'000) Live(10 * kMs);
  const std::uint16_t next = PortOf(1);
  Push(Difference(1, 2, {Set(1, 50'000)}));
  EXPECT_EQ(PortOf(1), next);
  source_.flows.at(wire::LocalFlowId(1)).sent_bytes += 1000;
  Live(300 * kMs);
  Push(Difference(1, 3, {Set(1, 50'000)}));  // by now it knows better
  EXPECT_EQ(PortOf(1), 50'000);
}

TEST_F(PathGuardTest, SlowFlowIsReportedOnceAndAgainWhenItIsFast) {
  Sync();
  Open(1, std::uint64_t{1} << 40);
  wire::PathSet set = Set(1, 50'000);
  set.max_rate_bps = 800'000'000;
  Push(Difference(1, 1, {set}));
  const auto run = [&](std::uint64_t bytes_per_10ms) {
    for (int i = 0; i < 100; ++i) {
      source_.flows.at(wire::LocalFlowId(1)).sent_bytes += bytes_per_10ms;
      Live(10 * kMs);
    }
  };
  run(1'000'000);
  EXPECT_THAT(Health(), IsEmpty());
  run(300'000);
  auto health = Health();
  ASSERT_THAT(health, SizeIs(1));
  EXPECT_EQ(health[0].verdict, PathVerdict::kSlow);
  EXPECT_EQ(health[0].planned_bps, 800'000'000u);
  run(1'000'000);
  health = Health();
  ASSERT_THAT(health, SizeIs(1));
  EXPECT_EQ(health[0].verdict, PathVerdict::kGood);
}

TEST_F(PathGuardTest, ManyDeadFlowsAreCheckedAFewAtATimeAndAllMove) {
  Sync();
  for (std::uint64_t id = 1; id <= 500; ++id) {
    Open(id);
    probes_.dead_ports.insert(static_cast<std::uint16_t>(40'000 + id));
  }
  Live(10 * kSecond);
  EXPECT_THAT(actuator_.ports, SizeIs(500));
  std::set<std::uint16_t> distinct;
  for (const auto& [flow, port] : actuator_.ports) distinct.insert(port);
  EXPECT_GE(distinct.size(), 490u);
}

// A program that announces dead flows without end chooses where its host sends probes to.
TEST_F(PathGuardTest, ProgramsCannotExceedTheProbeBudget) {
  Sync();
  probes_.answers = false;
  constexpr std::uint64_t kFlows = 3'000;
  for (std::uint64_t id = 1; id <= kFlows; ++id) {
    FlowSample sample{.id = wire::LocalFlowId(id),
                      .job = "a",
                      .source = Address("10.0.0.1"),
                      .destination = IpAddress::FromV4(
                          0x0A010000U + static_cast<std::uint32_t>(id % 3 == 0 ? id : 1)),
                      .source_port = 50'000,
                      .remote_qpn = 17,
                      .first_seen = loop_.Now(),
                      .remaining_bytes = 64 << 20};
    source_.flows[sample.id] = sample;
  }
  Changed();
  Live(300 * kMs);
  probes_.sent.clear();
  Live(3 * kSecond);
  const ProbeBudgetOptions budget;
  EXPECT_GT(probes_.sent.size(), 1'000u);
  EXPECT_LE(probes_.sent.size(), static_cast<std::size_t>(4 * budget.per_second));
  std::map<IpAddress, std::size_t> to;
  for (const Probe& probe : probes_.sent) {
    ++to[probe.destination];
    EXPECT_EQ(probe.destination_qpn, 0u);  // not the program's choice
  }
  const auto most = static_cast<std::size_t>(3.1 * budget.per_second_and_destination) +
                    budget.burst_for_destination;
  for (const auto& [destination, probes] : to) EXPECT_LE(probes, most);
}

TEST(ProbeBudget, EachDestinationHasItsShareOfTheWhole) {
  const TimePoint start{};
  ProbeBudget budget({.per_second = 10,
                      .per_second_and_destination = 2,
                      .burst_for_destination = 4,
                      .max_destinations = 2},
                     start);
  const auto to = [](std::uint32_t host) { return IpAddress::FromV4(0x0A010000U + host); };
  EXPECT_TRUE(budget.Take(to(1), 4, start));
  EXPECT_FALSE(budget.Take(to(1), 1, start));
  EXPECT_TRUE(budget.Take(to(2), 4, start));
  EXPECT_FALSE(budget.Take(to(3), 1, start));  // the table is full of those that owe
  EXPECT_FALSE(budget.Take(to(2), 3, start + kSecond));
  EXPECT_TRUE(budget.Take(to(2), 2, start + kSecond));
  EXPECT_TRUE(budget.Take(to(3), 4, start + 2 * kSecond));  // the first has its share again
  EXPECT_FALSE(budget.Take(to(4), 4, start + 2 * kSecond));
}

TEST_F(PathGuardTest, FlowsToOtherPortsAreJudgedByTheirTransportAlone) {
  StuckFlow(50'000);
  source_.flows.at(wire::LocalFlowId(1)).destination_port = 53;
  Live(kSecond);
  EXPECT_THAT(probes_.sent, IsEmpty());
  EXPECT_EQ(PortOf(1), 50'000);
  Retry();
  Live(kSecond);
  EXPECT_THAT(probes_.sent, IsEmpty());
  EXPECT_NE(PortOf(1), 50'000);
}

TEST_F(PathGuardTest, ProbesCarryTheQueuePairNumberWhereTheFabricHashesIt) {
  Sync({.guard = {.fabric_hashes_qpn = true}});
  Open(1);
  source_.flows.at(wire::LocalFlowId(1)).remote_qpn = 17;
  Push(Difference(1, 1, {Set(1, 50'000)}));
  Live(kSecond);
  ASSERT_FALSE(probes_.sent.empty());
  for (const Probe& probe : probes_.sent) EXPECT_EQ(probe.destination_qpn, 17u);
}

TEST_F(PathGuardTest, FlowThatEndsDuringItsCheckIsForgotten) {
  StuckFlow(50'000);
  probes_.answers = false;
  Live(320 * kMs);
  ASSERT_FALSE(probes_.sent.empty());
  End(1);
  Live(kSecond);
  EXPECT_THAT(Health(), IsEmpty());
}

}  // namespace
}  // namespace espalier::agent
