// Flows of connections that stay open, and become busy and idle.
#include "controller/placement/arrivals/bursts.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/controller/placement/arrivals/bursts_fixture.h"

namespace espalier::controller {
namespace {

TEST_F(BurstsTest, ThePhasesOfAJobFitThoughItsConnectionsTogetherDoNot) {
  OpenConnections();
  RunPeriods(2);
  EXPECT_EQ(max_load_, (Load{2, 1}));  // nothing is learned yet
  RunPeriods(10);
  const std::size_t pushes = PushesSoFar();
  const std::int64_t undecided = cluster_.CounterValue(kUndecided);
  const std::int64_t decided = cluster_.CounterValue(kDecided);
  EXPECT_GT(cluster_.CounterValue(kMovedIdle), 0);
  RunPeriods(5);
  EXPECT_EQ(max_load_, (Load{1, 1}));
  EXPECT_EQ(PushesSoFar(), pushes);  // no port changes, and nothing is told to the hosts
  EXPECT_EQ(cluster_.CounterValue(kUndecided), undecided + 5 * 4);
  EXPECT_EQ(cluster_.CounterValue(kDecided), decided);
  EXPECT_EQ(cluster_.state().flow_paths.assigner().MaxLoad(), (Load{}));  // all are idle
}

// What operators read does not follow each burst.
TEST_F(BurstsTest, TheSummaryCountsTheBusiestPhasesAlsoBetweenBursts) {
  OpenConnections();
  RunPeriods(12);
  ASSERT_EQ(cluster_.state().flow_paths.assigner().MaxLoad(), (Load{}));  // all are idle
  const LoadSummary loads = Summarize(cluster_.state());
  EXPECT_EQ(loads.max_load, (Load{1, 1}));
  EXPECT_EQ(loads.lower_bound, (Load{1, 1}));
  EXPECT_TRUE(loads.are_phases_known);
  EXPECT_TRUE(loads.IsOptimal());
  Toggle(0);
  cluster_.Settle();
  EXPECT_EQ(Summarize(cluster_.state()).max_load, loads.max_load);
  Toggle(0);
  cluster_.Settle();
  const auto tried = cluster_.ChangeLink("leaf0--spine0", IntentAction::kFail, {.dry_run = true});
  ASSERT_TRUE(tried.has_value());
  EXPECT_EQ(tried->before.max_load, loads.max_load);
  EXPECT_EQ(tried->after.max_load, (Load{2, 1}));  // both flows of a phase over the other spine
}

TEST_F(BurstsTest, PhasesStayPlannedWhileTheirStartsAreIrregular) {
  OpenConnections();
  RunPeriods(12);
  const std::size_t pushes = PushesSoFar();
  const std::int64_t plans = cluster_.CounterValue(kPlans);
  for (const Duration pause : {600ms, 1'800ms, 300ms, 1'200ms}) {
    RunPeriods(1);
    cluster_.Advance(pause);
    EXPECT_TRUE(cluster_.FlowOf(0, 1).is_parked);
  }
  RunPeriods(4);
  EXPECT_EQ(PushesSoFar(), pushes);
  EXPECT_EQ(cluster_.CounterValue(kPlans), plans);
}

TEST_F(BurstsTest, ANicThatGoesDownAndUpNeedsNoNewPlan) {
  OpenConnections();
  RunPeriods(12);
  const std::int64_t plans = cluster_.CounterValue(kPlans);
  const std::int64_t decided = cluster_.CounterValue(kDecided);
  for (const bool up : {false, true}) {
    const std::int64_t version = cluster_.state().topology.version();
    cluster_.Deliver(cluster_.host(8).peer, cluster_.host(8).instance,
                     wire::LinkEvent{.address = cluster_.Address(8), .up = up, .source = "nic"});
    cluster_.Settle();
    EXPECT_GT(cluster_.state().topology.version(), version);
    Toggle(0);  // at once, before anything is looked at again
    cluster_.Settle();
    EXPECT_TRUE(cluster_.FlowOf(0, 1).is_on_plan);
    Toggle(0);
    cluster_.Settle();
    EXPECT_TRUE(cluster_.FlowOf(0, 1).is_parked);
    cluster_.Advance(1s);
  }
  EXPECT_EQ(cluster_.CounterValue(kPlans), plans);
  EXPECT_EQ(cluster_.CounterValue(kDecided), decided);
}

TEST_F(BurstsTest, AParkedFlowLeavesADeadPathAndIsParkedOnAnother) {
  OpenConnections();
  RunPeriods(12);
  const Flow& flow = cluster_.FlowOf(0, 1);
  ASSERT_TRUE(flow.is_parked);
  const std::uint16_t port = cluster_.host(0).ports.at(1);
  const int spine = cluster_.SpineOf(0, 4, port);
  cluster_.state().flow_paths.CheckInvariants();
  cluster_.controller().links().health.HandleFeedReport(
      *cluster_.state().topology.FindLink("leaf0--spine" + std::to_string(spine)), false, "test");
  cluster_.Settle();
  cluster_.Advance(1s);
  cluster_.state().flow_paths.CheckInvariants();
  EXPECT_NE(cluster_.SpineOf(0, 4, cluster_.host(0).ports.at(1)), spine);
  EXPECT_TRUE(cluster_.FlowOf(0, 1).is_parked);
  EXPECT_EQ(cluster_.state().flow_paths.assigner().MaxLoad(), (Load{}));
}

// The plan knows nothing of a local reroute: neither the rerouted flow nor the planned one that it
// meets may stay where they are.
TEST_F(BurstsTest, PlannedFlowsMakeRoomForOneThatWasReroutedLocally) {
  // Room is made soon, as a link is known to be dead.
  ASSERT_TRUE(cluster_.ChangeLink("leaf2--spine0", IntentAction::kFail).has_value());
  OpenConnections();
  RunPeriods(12);
  for (const int host : {0, 1}) Toggle(host);
  cluster_.Settle();
  ASSERT_TRUE(cluster_.FlowOf(0, 1).is_on_plan && cluster_.FlowOf(1, 1).is_on_plan);
  const int met = cluster_.AppliedSpine(1, 1, 5);
  std::uint16_t port = 60'000;
  while (cluster_.SpineOf(0, 4, port) != met) ++port;
  RerouteLocally(0, port);
  EXPECT_EQ(cluster_.AppliedSpine(0, 1, 4), cluster_.AppliedSpine(1, 1, 5));
  cluster_.Advance(450ms);  // both stay busy
  EXPECT_EQ(cluster_.AppliedSpine(0, 1, 4), met);
  EXPECT_NE(cluster_.AppliedSpine(1, 1, 5), met);
  for (const int host : {0, 1}) Toggle(host);
  cluster_.Settle();
  RunPeriods(1);
  EXPECT_EQ(max_load_, (Load{1, 1}));
  EXPECT_EQ(cluster_.FlowOf(0, 1).subflows[0].port, port);  // the path that it left may be dead
  EXPECT_EQ(cluster_.FlowOf(0, 1).rerouted_in, cluster_.state().topology.version());
  RunPeriods(62);
  EXPECT_EQ(cluster_.FlowOf(0, 1).rerouted_in, -1);  // plans may move it again
  EXPECT_EQ(max_load_, (Load{1, 1}));
}

// The flow that it meets is idle at first, so that there is room when the reroute is looked at.
TEST_F(BurstsTest, PlannedFlowsMakeRoomAlsoIfTheyAreIdleAtFirst) {
  ASSERT_TRUE(cluster_.ChangeLink("leaf2--spine0", IntentAction::kFail).has_value());
  OpenConnections();
  RunPeriods(12);
  Toggle(0);
  cluster_.Settle();
  const int met = cluster_.AppliedSpine(1, 1, 5);
  std::uint16_t port = 60'000;
  while (cluster_.SpineOf(0, 4, port) != met) ++port;
  RerouteLocally(0, port);
  cluster_.Advance(450ms);
  Toggle(1);
  cluster_.Settle();
  cluster_.Advance(250ms);
  EXPECT_EQ(cluster_.AppliedSpine(0, 1, 4), met);
  EXPECT_NE(cluster_.AppliedSpine(1, 1, 5), met);
}

TEST_F(BurstsTest, PhasesArePlannedAroundOtherFlows) {
  OpenConnections();
  RunPeriods(12);
  // Another job, whose phases are not known, sends between the same leaves.
  wire::FlowReport report = Cluster::Opening(cluster_, 2, {{.id = 9, .to = 7, .job = "other"}});
  report.progress = {Row(1)};
  report.progress.front().id = wire::LocalFlowId(9);
  cluster_.Report(2, report);
  cluster_.Settle();
  cluster_.Advance(2s);  // the phases are planned around it
  RunPeriods(1);
  EXPECT_EQ(max_load_, (Load{2, 1}));  // three flows on two spines
  cluster_.End(2, 9);
  cluster_.Settle();
  cluster_.Advance(2s);
  RunPeriods(2);
  EXPECT_EQ(max_load_, (Load{1, 1}));
}

TEST_F(BurstsTest, ClosingParkedConnectionsLeavesNothingBehind) {
  OpenConnections();
  RunPeriods(12);
  for (const int host : {0, 1, 2, 3}) cluster_.End(host, 1);
  cluster_.Settle();
  cluster_.Advance(1s);
  cluster_.state().flow_paths.CheckInvariants();
  EXPECT_EQ(cluster_.state().flows.size(), 0U);
  EXPECT_EQ(cluster_.state().flow_paths.fingerprint(), 0U);
}

// What a flow's backup path is does not depend on whether it is busy just now.
TEST_F(BurstsTest, IdleFlowsHaveBackupPathsWhichBurstsDoNotChange) {
  OpenConnections();
  RunPeriods(14);
  cluster_.Advance(1s);
  const auto plans = [&] { return cluster_.CounterValue("espalier_failure_plans_made_total"); };
  const std::int64_t plans_before = plans();
  std::size_t backups = 0;
  for (const int host : {0, 1, 2, 3}) {
    const Flow& flow = cluster_.FlowOf(host, 1);
    ASSERT_TRUE(flow.is_parked);
    const std::string link =
        "leaf0--spine" + std::to_string(cluster_.AppliedSpine(host, 1, host + 4));
    const auto domain = LinkOrSwitch::Link(*cluster_.state().topology.FindLink(link));
    backups += cluster_.controller().failure_plans().EntriesOf(domain) == 2 ? 1 : 0;
  }
  EXPECT_EQ(backups, 4U);  // two flows on each of the two links
  RunPeriods(5);
  EXPECT_EQ(plans(), plans_before);
}

// A job that goes on to other phases again and again: the longer it does, the more seldom the plan
// follows, so that ports do not change for as long as the job runs.
TEST_F(BurstsTest, PlansForPhasesThatDoNotLastBecomeRare) {
  OpenConnections();
  const auto plans_in = [&](int changes) {
    const std::int64_t before = cluster_.CounterValue(kPlans);
    for (int i = 0; i < changes; ++i) {
      const int other = i % 2 == 0 ? 1 : 2;
      for (int period = 0; period < 8; ++period) {
        RunPhase({0, other}, 200ms);
        cluster_.Advance(100ms);
        RunPhase({3 - other, 3}, 200ms);
        cluster_.Advance(500ms);
      }
    }
    return cluster_.CounterValue(kPlans) - before;
  };
  const std::int64_t first = plans_in(6);
  plans_in(12);
  const std::int64_t last = plans_in(6);
  EXPECT_GE(first, 4);
  EXPECT_LE(last, first / 2);
  cluster_.state().flow_paths.CheckInvariants();
}

// Flow 1 is busy with each of the others in turn, which share a link, as they never meet. When the
// phases are forgotten, as all are busy for long, one of these must leave it.
TEST_F(BurstsTest, FlowsThatShareALinkBySharingNoPhaseAreSpreadWhenTheirPlanIsLost) {
  OpenConnections();
  for (int period = 0; period < 12; ++period) {
    for (const int other : {0, 2, 3}) {
      RunPhase({1, other}, 200ms);
      cluster_.Advance(200ms);
    }
  }
  const auto spine_of = [&](int host) { return cluster_.AppliedSpine(host, 1, host + 4); };
  ASSERT_NE(spine_of(0), spine_of(1));
  ASSERT_EQ(spine_of(0), spine_of(2));
  ASSERT_EQ(spine_of(0), spine_of(3));
  const auto made_room = [&] {
    std::size_t events = 0;
    for (const HistoryEvent& event : cluster_.state().history.Since(0, 10'000)) {
      const bool is_it = event.kind == "made_room" && event.text.starts_with("for=lost_plan");
      if (is_it) ++events;
    }
    return events;
  };
  for (const int host : {0, 1, 2, 3}) Toggle(host);
  cluster_.Settle();
  EXPECT_EQ(cluster_.state().flow_paths.assigner().MaxLoad(), (Load{3, 1}));  // as planned
  EXPECT_EQ(made_room(), 0U);
  cluster_.Advance(10s);  // many times the period
  EXPECT_EQ(cluster_.state().flow_paths.assigner().MaxLoad(), (Load{2, 1}));
  EXPECT_EQ(made_room(), 1U);
  EXPECT_FALSE(cluster_.FlowOf(0, 1).is_on_plan);
  cluster_.state().flow_paths.CheckInvariants();
}

class ConnectionsTest : public BurstsTest {
 protected:
  ConnectionsTest() : BurstsTest({.activity = Activity::kConnections}) {}
};

TEST_F(ConnectionsTest, AllOpenConnectionsCountAsLoad) {
  OpenConnections();
  RunPeriods(12);
  EXPECT_EQ(max_load_, (Load{2, 1}));
  EXPECT_EQ(cluster_.CounterValue(kUndecided), 0);
  EXPECT_FALSE(cluster_.FlowOf(0, 1).is_parked);
}

// An agent that reports no edges: its flows count while they are open, as before.
TEST_F(BurstsTest, FlowsOfAgentsWithoutEdgesCountWhileTheyAreOpen) {
  cluster_.Open(0, {{.id = 1, .to = 4}});
  cluster_.Settle();
  wire::FlowReport report;
  report.progress = {{.id = wire::LocalFlowId(1), .state = wire::FlowState::kIdle}};
  cluster_.Report(0, report);
  cluster_.Advance(1s);
  EXPECT_FALSE(cluster_.FlowOf(0, 1).is_parked);
  EXPECT_EQ(cluster_.state().flow_paths.assigner().MaxLoad(), (Load{1, 1}));
}

}  // namespace
}  // namespace espalier::controller
