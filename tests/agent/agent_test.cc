#include "agent/agent.h"

#include <gmock/gmock.h>

#include "tests/agent/agent_fixture.h"

namespace espalier::agent {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST_F(AgentTest, SaysHelloUntilItIsWelcome) {
  Start();
  ASSERT_THAT(bus_.sent, SizeIs(1));
  EXPECT_EQ(bus_.sent[0].sender_instance, 42u);
  const auto hello = bus_.Take<wire::Hello>().at(0);
  EXPECT_EQ(hello.name, "h0");
  EXPECT_EQ(hello.protocol_major, wire::kProtocolMajor);
  EXPECT_THAT(hello.nics, SizeIs(1));
  EXPECT_EQ(agent_->state(), AgentState::kConnecting);
  Step(30 * kSecond);
  // 100 ms doubled up to 5 s: 6 in the first 6.3 s, then every 5 s.
  EXPECT_THAT(bus_.Take<wire::Hello>(), SizeIs(10));
  Welcome();
  EXPECT_EQ(agent_->state(), AgentState::kSynced);
  Live(10 * kSecond);
  EXPECT_THAT(bus_.Take<wire::Hello>(), IsEmpty());
}

TEST_F(AgentTest, RefusedAgentRetriesSlowly) {
  Start({.refused_hello_wait = 30 * kSecond});
  bus_.sent.clear();
  bus_.Deliver(wire::Welcome{.accepted = false, .reason = "two agents of one name", .features = {}},
               kController);
  EXPECT_EQ(agent_->state(), AgentState::kConnecting);
  Step(29 * kSecond);
  EXPECT_THAT(bus_.sent, IsEmpty());
  Step(1100 * kMs);
  EXPECT_THAT(bus_.Take<wire::Hello>(), SizeIs(1));
}

TEST_F(AgentTest, ControllerOfAnotherMajorVersionIsNotFollowed) {
  Start();
  bus_.Deliver(wire::Welcome{.accepted = true,
                             .reason = {},
                             .protocol_major = wire::kProtocolMajor + 1,
                             .heartbeat_interval_us = 1000,
                             .features = {}},
               kController);
  EXPECT_EQ(agent_->state(), AgentState::kConnecting);
}

TEST_F(AgentTest, EveryWelcomeIsAnsweredByAFullReport) {
  Start();
  Open(1);
  Open(2);
  EXPECT_THAT(bus_.Take<wire::FlowReport>(), IsEmpty());
  for (int i = 0; i < 2; ++i) {
    Welcome();
    const auto reports = bus_.Take<wire::FlowReport>();
    ASSERT_THAT(reports, SizeIs(1));
    EXPECT_TRUE(reports[0].full);
    EXPECT_EQ(reports[0].sequence, 1u);
    EXPECT_THAT(reports[0].opened, SizeIs(2));
    EXPECT_THAT(reports[0].progress, SizeIs(2));
  }
  End(1);
  const auto reports = bus_.Take<wire::FlowReport>();
  ASSERT_THAT(reports, SizeIs(1));
  EXPECT_FALSE(reports[0].full);
  EXPECT_EQ(reports[0].sequence, 2u);
  EXPECT_THAT(reports[0].ended, ElementsAre(wire::LocalFlowId(1)));
}

TEST_F(AgentTest, HeartbeatsCarryWhatWasApplied) {
  Sync();
  Open(1);
  Push(Difference(3, 1, {Set(1, 50'000)}));
  Live(3500 * kMs);
  const auto beats = bus_.Take<wire::Heartbeat>();
  ASSERT_THAT(beats, SizeIs(3));
  EXPECT_EQ(beats[2].sequence, 3u);
  EXPECT_EQ(beats[2].epoch, 3u);
  EXPECT_EQ(beats[2].generation, 1u);
}

TEST_F(AgentTest, SaysHelloAgainWhenTheControllerIsSilent) {
  Sync();
  Open(1);
  Push(Difference(3, 1, {Set(1, 50'000)}));
  bus_.sent.clear();
  Step(2900 * kMs);
  EXPECT_EQ(agent_->state(), AgentState::kSynced);
  Step(200 * kMs);
  EXPECT_EQ(agent_->state(), AgentState::kOrphan);
  const auto hello = bus_.Take<wire::Hello>().at(0);
  EXPECT_EQ(hello.highest_epoch, 3u);
  EXPECT_EQ(hello.applied_generation, 1u);
  EXPECT_EQ(PortOf(1), 50'000);
}

// Nobody adapts a rate while there is no controller, so it must not hold a flow down.
TEST_F(AgentTest, RatesEndWhenTheControllerIsSilentAndPortsStay) {
  Sync({.lease = 60 * kSecond});
  Open(1);
  wire::PathSet set = Set(1, 50'000);
  set.max_rate_bps = 1'000'000;
  Push(Difference(3, 1, {set}));
  EXPECT_EQ(actuator_.last.at(wire::LocalFlowId(1)).max_rate_bps, 1'000'000U);
  Step(3100 * kMs);
  ASSERT_EQ(agent_->state(), AgentState::kOrphan);
  EXPECT_EQ(PortOf(1), 50'000);
  EXPECT_EQ(actuator_.last.at(wire::LocalFlowId(1)).max_rate_bps, 0U);
  Welcome();
  wire::PathPush again = Difference(3, 2, {set});
  again.full = true;
  Push(again);
  EXPECT_EQ(actuator_.last.at(wire::LocalFlowId(1)).max_rate_bps, 1'000'000U);
}

TEST_F(AgentTest, RatesThatProgramsKeptFromAnEarlierAgentEndAtOnce) {
  wire::PathSet kept = Set(1, 50'000);
  kept.max_rate_bps = 1'000'000;
  Start();
  source_.flows[wire::LocalFlowId(1)] = {.id = wire::LocalFlowId(1),
                                         .job = {},
                                         .source = {},
                                         .destination = {},
                                         .first_seen = {},
                                         .kept = kept};
  source_.on_change();
  Step(10 * kMs);
  EXPECT_EQ(PortOf(1), 50'000);
  EXPECT_EQ(actuator_.last.at(wire::LocalFlowId(1)).max_rate_bps, 0U);
}

TEST_F(AgentTest, SaysHelloToAnotherInstanceOfTheController) {
  Sync();
  bus_.Deliver(wire::Heartbeat{}, kController + 1);
  EXPECT_THAT(bus_.Take<wire::Hello>(), SizeIs(1));
  Welcome(kController + 1);
  EXPECT_EQ(agent_->state(), AgentState::kSynced);
  EXPECT_THAT(bus_.Take<wire::FlowReport>(), SizeIs(1));
}

TEST_F(AgentTest, SignOfLifeEndsALongWait) {
  Sync();
  Step(60 * kSecond);
  ASSERT_EQ(agent_->state(), AgentState::kOrphan);
  bus_.sent.clear();
  for (int i = 0; i < 5; ++i) bus_.Deliver(wire::Heartbeat{}, kController);
  EXPECT_THAT(bus_.Take<wire::Hello>(), SizeIs(1));
}

TEST_F(AgentTest, LiveFlowsKeepTheirPortsForTheLeaseAndThenGoBackToEcmp) {
  Sync({.lease = 60 * kSecond});
  Open(1);
  Push(Difference(3, 1, {Set(1, 50'000)}));
  source_.flows.at(wire::LocalFlowId(1)).remaining_bytes = 0;  // idle: nothing to reroute for
  Step(59 * kSecond);
  EXPECT_EQ(agent_->state(), AgentState::kOrphan);
  EXPECT_EQ(PortOf(1), 50'000);
  Open(2, 0);
  EXPECT_EQ(PortOf(2), 0);
  Step(2 * kSecond);
  EXPECT_EQ(PortOf(1), 0);
  // The returning controller learns that it has to push everything.
  bus_.sent.clear();
  Step(6 * kSecond);
  EXPECT_EQ(bus_.Take<wire::Hello>().at(0).applied_generation, 0u);
  Welcome();
  EXPECT_EQ(Push(Difference(3, 2, {Set(1, 50'001)})).status, wire::AckStatus::kNeedFull);
  EXPECT_EQ(Push(Full(3, 3, {Set(1, 50'001)})).status, wire::AckStatus::kApplied);
  EXPECT_EQ(PortOf(1), 50'001);
}

TEST_F(AgentTest, ControllerThatDiesAndReturnsMovesNothing) {
  Sync();
  Open(1);
  Open(2);
  Push(Difference(3, 1, {Set(1, 50'000), Set(2, 50'001)}));
  Step(10 * kSecond);
  ASSERT_EQ(agent_->state(), AgentState::kOrphan);
  bus_.sent.clear();
  const int calls = actuator_.calls;
  Welcome(kController);
  const auto report = bus_.Take<wire::FlowReport>().at(0);
  ASSERT_THAT(report.opened, SizeIs(2));
  EXPECT_TRUE(report.opened[0].steered);
  EXPECT_EQ(report.opened[0].source_port, 50'000);
  EXPECT_EQ(Push(Full(4, 1, {Set(1, 50'000), Set(2, 50'001)})).status, wire::AckStatus::kApplied);
  EXPECT_EQ(actuator_.calls, calls);
  EXPECT_EQ(PortOf(1), 50'000);
}

TEST_F(AgentTest, ReportsThePortsThatAnEarlierAgentGave) {
  Sync();
  Open(1);
  source_.flows.at(wire::LocalFlowId(1)).kept = Set(1, 50'000);
  Step(kSecond);
  bus_.sent.clear();
  Welcome(kController);
  const auto report = bus_.Take<wire::FlowReport>().at(0);
  ASSERT_THAT(report.opened, SizeIs(1));
  EXPECT_TRUE(report.opened[0].steered);
  EXPECT_EQ(report.opened[0].source_port, 50'000);
}

TEST_F(AgentTest, ReportsAllPathsOfASplitFlowToAReturningController) {
  Sync();
  Open(1);
  Open(2);
  wire::PathSet split = Set(1, 50'000);
  split.paths.push_back({.source_port = 50'007, .path_id = 3, .encoding = {}});
  Push(Difference(3, 1, {split, Set(2, 50'001)}));
  Step(10 * kSecond);
  bus_.sent.clear();
  Welcome(kController);
  const auto report = bus_.Take<wire::FlowReport>().at(0);
  ASSERT_THAT(report.opened, SizeIs(2));
  EXPECT_THAT(report.opened[0].path_ports, ::testing::ElementsAre(50'000, 50'007));
  EXPECT_THAT(report.opened[1].path_ports, ::testing::IsEmpty());
}

TEST_F(AgentTest, LostPushIsNoticedByTheNextHeartbeat) {
  Sync();
  Open(1);
  Push(Difference(3, 1, {Set(1, 50'000)}));
  bus_.Deliver(wire::Heartbeat{.sequence = 1, .epoch = 3, .generation = 1}, kController);
  EXPECT_THAT(bus_.Take<wire::Ack>(), IsEmpty());
  bus_.Deliver(wire::Heartbeat{.sequence = 2, .epoch = 3, .generation = 2}, kController);
  EXPECT_EQ(bus_.Take<wire::Ack>().at(0).status, wire::AckStatus::kNeedFull);
}

TEST_F(AgentTest, ReportThatTheBusDropsIsFollowedByAFullOne) {
  Sync();
  bus_.is_full = true;
  Open(1);
  Live(50 * kMs);
  End(1);
  bus_.is_full = false;
  Live(50 * kMs);
  const auto reports = bus_.Take<wire::FlowReport>();
  ASSERT_THAT(reports, SizeIs(1));
  EXPECT_TRUE(reports[0].full);
  EXPECT_THAT(reports[0].opened, IsEmpty());
}

TEST_F(AgentTest, GarbageFromTheControllerIsIgnored) {
  Sync();
  bus_.DeliverBytes("");
  bus_.DeliverBytes("garbage");
  bus_.DeliverBytes(std::string(1000, '\xff'));
  bus_.Deliver(wire::Hello{.name = "x", .features = {}, .nics = {}}, kController);
  EXPECT_EQ(agent_->state(), AgentState::kSynced);
  Open(1);
  EXPECT_EQ(Push(Difference(1, 1, {Set(1, 50'000)})).status, wire::AckStatus::kApplied);
}

TEST_F(AgentTest, NicChangesAreReportedAtOnceAndInTheNextHello) {
  Sync();
  agent_->HandleNic({.address = Address("10.0.0.1"), .device = "eth0", .link_up = false});
  const auto events = bus_.Take<wire::LinkEvent>();
  ASSERT_THAT(events, SizeIs(1));
  EXPECT_EQ(events[0].address, Address("10.0.0.1"));
  EXPECT_FALSE(events[0].up);
  Step(4 * kSecond);
  const auto hello = bus_.Take<wire::Hello>().at(0);
  ASSERT_THAT(hello.nics, SizeIs(1));
  EXPECT_FALSE(hello.nics[0].link_up);
}

TEST_F(AgentTest, BurstOfFlowStartsIsOneReport) {
  Sync();
  for (std::uint64_t id = 1; id <= 1000; ++id) {
    FlowSample sample{.id = wire::LocalFlowId(id),
                      .job = "a",
                      .source = Address("10.0.0.1"),
                      .destination = Address("10.1.0.1"),
                      .first_seen = loop_.Now(),
                      .remaining_bytes = 64 << 20};
    source_.flows[sample.id] = sample;
    loop_.Post(source_.on_change);
  }
  loop_.Advance(Duration::zero());
  const auto reports = bus_.Take<wire::FlowReport>();
  ASSERT_THAT(reports, SizeIs(1));
  EXPECT_THAT(reports[0].opened, SizeIs(1000));
}

// The count of reports begins again with each Welcome, so none may come between a Hello and that.
TEST_F(AgentTest, TellsNewFeaturesBeforeItReportsAnythingElse) {
  std::vector<std::string> more;
  AgentOptions options;
  options.dynamic_features = [&] { return more; };
  Sync(std::move(options));
  Open(1);
  Live(1'100 * kMs);
  EXPECT_FALSE(bus_.Take<wire::Heartbeat>().empty());
  EXPECT_TRUE(bus_.Take<wire::Hello>().empty());
  bus_.sent.clear();
  more = {"offload"};
  while (bus_.Take<wire::Hello>().empty()) Live(10 * kMs);
  Open(2);
  Live(2'500 * kMs);
  EXPECT_TRUE(bus_.Take<wire::Heartbeat>().empty());
  EXPECT_TRUE(bus_.Take<wire::FlowReport>().empty());
  Welcome();
  Live(1'100 * kMs);
  EXPECT_FALSE(bus_.Take<wire::Heartbeat>().empty());
  const auto reports = bus_.Take<wire::FlowReport>();
  ASSERT_FALSE(reports.empty());
  EXPECT_EQ(reports.front().sequence, 1U);
  EXPECT_EQ(reports.front().opened.size(), 2U);
}

// Nobody adapts the rate of a flow that the controller does not know any more.
TEST_F(AgentTest, AnElephantThatLosesItsPlaceReturnsToPlainEcmp) {
  AgentOptions options;
  options.meter.max_elephants = 2;
  Sync(options);
  Open(1).user = 1001;
  Open(2).user = 1001;
  Live(20 * kMs);
  wire::PathSet limited = Set(2, 50'002);
  limited.max_rate_bps = 1'000;
  EXPECT_EQ(
      Push({.epoch = 1, .generation = 1, .full = true, .sets = {Set(1, 50'001), limited}}).status,
      wire::AckStatus::kApplied);
  EXPECT_EQ(actuator_.ports.size(), 2U);
  bus_.sent.clear();
  Open(3).user = 1002;
  Live(50 * kMs);
  EXPECT_EQ(actuator_.ports.size(), 1U);
  EXPECT_EQ(actuator_.ports.count(wire::LocalFlowId(2)), 0U) << "the newest of the user with more";
  std::vector<std::uint64_t> opened;
  std::vector<std::uint64_t> ended;
  for (const wire::FlowReport& report : bus_.Take<wire::FlowReport>()) {
    for (const wire::OpenedFlow& flow : report.opened) opened.push_back(flow.id.value());
    for (const wire::LocalFlowId flow : report.ended) ended.push_back(flow.value());
  }
  EXPECT_THAT(opened, ElementsAre(3));
  EXPECT_THAT(ended, ElementsAre(2));
}

}  // namespace
}  // namespace espalier::agent
