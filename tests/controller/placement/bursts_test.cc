// Flows of connections that stay open, and become busy and idle.
#include "controller/placement/bursts.h"

#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "tests/controller/cluster.h"

namespace espalier::controller {
namespace {

using namespace std::chrono_literals;

constexpr const char* kUndecided = "espalier_bursts_without_decision_total";
constexpr const char* kDecided = "espalier_bursts_decided_total";
constexpr const char* kMovedIdle = "espalier_idle_flows_moved_total";
constexpr const char* kPlans = "espalier_phase_plans_computed_total";

// Three leaves with four hosts each and two spines. A job sends from host i to host i + 4: first
// hosts 0 and 1, then hosts 2 and 3. Each phase fits on the spines with one flow a link, but all
// four connections together put two on each.
class BurstsTest : public testing::Test {
 protected:
  explicit BurstsTest(Activity activity = Activity::kBursts)
      : cluster_(fabric::LeafSpineOptions{.spines = 2, .leaves = 3, .hosts_per_leaf = 4},
                 {.activity = activity}) {
    cluster_.ConnectAll();
  }

  // Opens the job's connections in an order that puts both flows of a phase on one spine.
  void OpenConnections() {
    for (const int host : {0, 2, 1, 3}) {
      wire::FlowReport report = Cluster::Opening(cluster_, host, {{.id = 1, .to = host + 4}});
      report.progress = {Row(++edges_[host])};
      cluster_.Report(host, report);
      cluster_.Settle();
    }
    for (const int host : {0, 1, 2, 3}) Toggle(host);
    cluster_.Settle();
  }
  static wire::FlowProgress Row(std::uint32_t edges) {
    const bool busy = edges % 2 == 1;
    return {.id = wire::LocalFlowId(1),
            .outstanding_bytes = busy ? 1'000'000U : 0U,
            .state = busy ? wire::FlowState::kActive : wire::FlowState::kIdle,
            .edges = edges,
            .edge_age_us = 100};
  }
  void Toggle(int host) {
    wire::FlowReport report;
    report.progress = {Row(++edges_[host])};
    cluster_.Report(host, report);
  }
  void RunPhase(const std::vector<int>& hosts, Duration duration) {
    for (const int host : hosts) Toggle(host);
    cluster_.Settle();
    cluster_.Advance(duration / 2);
    max_load_ = std::max(max_load_, cluster_.state().flow_paths.assigner().MaxLoad());
    cluster_.Advance(duration - duration / 2);
    for (const int host : hosts) Toggle(host);
    cluster_.Settle();
  }
  void RunPeriods(int count) {
    max_load_ = {};
    for (int i = 0; i < count; ++i) {
      RunPhase({0, 1}, 200ms);
      cluster_.Advance(100ms);
      RunPhase({2, 3}, 200ms);
      cluster_.Advance(500ms);
    }
    cluster_.state().flow_paths.CheckInvariants();
  }
  // The host's agent has rerouted its flow to this port.
  void RerouteLocally(int host, std::uint16_t port) {
    cluster_.host(host).ports[1] = port;
    wire::FlowPath& path = cluster_.host(host).sets.at(1).paths[0];
    path.source_port = port;
    cluster_.Deliver(cluster_.host(host).peer, cluster_.host(host).instance,
                     wire::PathHealth{.flows = {{.flow = wire::LocalFlowId(1),
                                                 .path_id = path.path_id,
                                                 .source_port = port,
                                                 .verdict = wire::PathVerdict::kLocallyRerouted}}});
    cluster_.Settle();
  }
  std::size_t PushesSoFar() {
    std::size_t pushes = 0;
    for (int host = 0; host < cluster_.hosts(); ++host) pushes += cluster_.host(host).pushes.size();
    return pushes;
  }

  Cluster cluster_;
  std::map<int, std::uint32_t> edges_;  // by host
  Load max_load_;                       // the highest in the middle of a phase
};

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
    cluster_.Advance(1s);
    Toggle(0);
    cluster_.Settle();
    EXPECT_TRUE(cluster_.FlowOf(0, 1).is_on_plan);
    Toggle(0);
    cluster_.Settle();
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
  cluster_.controller().HandleLinkReport(
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

class ConnectionsTest : public BurstsTest {
 protected:
  ConnectionsTest() : BurstsTest(Activity::kConnections) {}
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
