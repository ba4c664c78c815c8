// Flows that their agents rerouted locally.
#include "controller/placement/failures/local_reroutes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "tests/controller/four_flows.h"
#include "tests/controller/placement/placed_flows.h"

namespace espalier::controller {
namespace {

using namespace std::chrono_literals;

constexpr const char* kMoved = "espalier_controller_flows_moved_total";

class LocalReroutesTest : public LocalReroute {};

TEST_F(LocalReroutesTest, OthersMakeRoomForAReroutedFlow) {
  ASSERT_EQ(MaxLoad(), (Load{1, 1}));
  const int left = SpineOf(0);
  const int met = SpineOf(1);
  const std::uint16_t port = RerouteLocally(0, met);
  EXPECT_EQ(MaxLoad(), (Load{2, 1}));
  cluster_.Advance(5s);
  EXPECT_EQ(MaxLoad(), (Load{1, 1}));
  EXPECT_EQ(PortOf(0), port);  // it has found a path that works
  EXPECT_EQ(SpineOf(1), left);
  EXPECT_EQ(cluster_.host(1).sets.at(1).reason, wire::PathReason::kAssigned);
  EXPECT_EQ(cluster_.CounterValue(kMoved), 1);
  const auto events = cluster_.state().history.Since(0, 1'000);
  EXPECT_EQ(std::ranges::count(events, "made_room", &HistoryEvent::kind), 1);
}

TEST_F(LocalReroutesTest, OneOfTwoFlowsReroutedToOnePathMakesRoom) {
  std::set<int> spines = {0, 1, 2, 3};
  spines.erase(SpineOf(2));
  spines.erase(SpineOf(3));
  RerouteLocally(0, *spines.begin());
  RerouteLocally(1, *spines.begin());
  EXPECT_EQ(MaxLoad(), (Load{2, 1}));
  cluster_.Advance(5s);
  EXPECT_EQ(MaxLoad(), (Load{1, 1}));
  EXPECT_EQ(cluster_.CounterValue(kMoved), 1);
}

TEST_F(LocalReroutesTest, RoomIsMadeSoonOnlyIfALinkIsKnownToBeDead) {
  const int left = SpineOf(0);
  RerouteLocally(0, SpineOf(1));
  cluster_.Advance(2s);
  for (int host = 1; host < 4; ++host) EXPECT_NE(SpineOf(host), left);  // it may be dead
  EXPECT_EQ(cluster_.CounterValue(kMoved), 0);
  ASSERT_TRUE(cluster_.ChangeLink("leaf1--spine" + std::to_string(SpineOf(3)), IntentAction::kFail)
                  .has_value());
  cluster_.Advance(1s);
  EXPECT_EQ(MaxLoad(), (Load{2, 1}));  // four flows, three spines
}

TEST_F(LocalReroutesTest, NoFlowMakesRoomIfNoneIsNeeded) {
  cluster_.End(3, 1);
  cluster_.Settle();
  std::set<int> others;
  for (int host = 0; host < 3; ++host) others.insert(SpineOf(host));
  int free = 0;
  while (others.contains(free)) ++free;
  RerouteLocally(0, free);
  cluster_.Advance(1s);
  EXPECT_EQ(SpineOf(0), free);
  EXPECT_EQ(cluster_.CounterValue(kMoved), 0);
}

TEST_F(LocalReroutesTest, AFlowDoesNotGetAPortThatItLeft) {
  const std::uint16_t left = PortOf(0);
  const int spine = SpineOf(0);
  RerouteLocally(0, SpineOf(1));
  cluster_.Advance(1s);
  for (int other = 0; other < 4; ++other) {
    if (other == spine) continue;
    const std::string link = "leaf0--spine" + std::to_string(other);
    ASSERT_TRUE(cluster_.ChangeLink(link, IntentAction::kDrain).has_value());
    cluster_.Settle();
  }
  EXPECT_EQ(SpineOf(0), spine);
  EXPECT_NE(PortOf(0), left);
}

TEST(LocalReroutesOfCluster, FollowsAnAgentThatLeftADeadPathByItself) {
  Cluster cluster(kFourLeaves);
  cluster.ConnectAll();
  cluster.Open(0, {{.id = 1, .to = 4}});
  cluster.Settle();
  std::uint16_t port = 60'000;
  while (cluster.SpineOf(0, 4, port) != 3) ++port;
  cluster.host(0).ports[1] = port;
  cluster.Deliver(cluster.host(0).peer, cluster.host(0).instance,
                  wire::PathHealth{.flows = {{.flow = wire::LocalFlowId(1),
                                              .source_port = port,
                                              .verdict = wire::PathVerdict::kLocallyRerouted}}});
  cluster.Settle();
  EXPECT_EQ(cluster.FlowOf(0, 1).status, FlowStatus::kRouted);
  EXPECT_EQ(cluster.FlowOf(0, 1).subflows[0].port, port);
  EXPECT_EQ(cluster.state().flow_paths.PathOf(cluster.FlowOf(0, 1).subflows[0]),
            fabric::PathIndex(3));
  EXPECT_EQ(cluster.state().flow_paths.assigner().MaxLoad(), (Load{1, 1}));
}

class LocalReroutesOfSplitFlows : public Split {};

TEST_F(LocalReroutesOfSplitFlows, FollowsAnAgentThatLeftOneOfThePaths) {
  Start(2);
  const wire::PathSet set = cluster_.host(0).sets.at(1);
  std::uint16_t port = 60'000;
  while (cluster_.SpineOf(0, 3, port) != cluster_.SpineOf(0, 3, set.paths[0].source_port)) ++port;
  cluster_.Deliver(cluster_.host(0).peer, cluster_.host(0).instance,
                   wire::PathHealth{.flows = {{.flow = wire::LocalFlowId(1),
                                               .path_id = set.paths[1].path_id,
                                               .source_port = port,
                                               .verdict = wire::PathVerdict::kLocallyRerouted}}});
  cluster_.Settle();
  const Flow& flow = cluster_.FlowOf(0, 1);
  EXPECT_EQ(flow.status, FlowStatus::kRouted);
  EXPECT_EQ(flow.subflows[0].port, set.paths[0].source_port);
  EXPECT_EQ(flow.subflows[1].port, port);
  EXPECT_EQ(cluster_.state().flow_paths.PathOf(flow.subflows[1]),
            cluster_.state().flow_paths.PathOf(flow.subflows[0]));
}

// The agent leaves a path for that of another subflow, and then the latter's port.
TEST_F(LocalReroutesOfSplitFlows, KnowsWhichOfTwoPortsOnOnePathWasLeft) {
  Start(2);
  const wire::PathSet set = cluster_.host(0).sets.at(1);
  const auto port_like = [&](std::uint16_t other, std::uint16_t from) {
    while (cluster_.SpineOf(0, 3, from) != cluster_.SpineOf(0, 3, other)) ++from;
    return from;
  };
  const std::uint16_t first = port_like(set.paths[1].source_port, 60'000);
  const std::uint16_t second = port_like(set.paths[0].source_port, 61'000);
  for (std::size_t path = 0; path < 2; ++path) {
    cluster_.Deliver(cluster_.host(0).peer, cluster_.host(0).instance,
                     wire::PathHealth{.flows = {{.flow = wire::LocalFlowId(1),
                                                 .path_id = set.paths[path].path_id,
                                                 .source_port = path == 0 ? first : second,
                                                 .verdict = wire::PathVerdict::kLocallyRerouted,
                                                 .left_port = set.paths[path].source_port}}});
    cluster_.Settle();
  }
  const Flow& flow = cluster_.FlowOf(0, 1);
  EXPECT_EQ(flow.subflows[0].port, first);
  EXPECT_EQ(flow.subflows[1].port, second);
}

// Hosts may claim anything.
TEST_F(LocalReroutesOfSplitFlows, AReportAboutAPortThatTheFlowDoesNotHaveChangesNothing) {
  Start(2);
  const wire::PathSet set = cluster_.host(0).sets.at(1);
  cluster_.Deliver(cluster_.host(0).peer, cluster_.host(0).instance,
                   wire::PathHealth{.flows = {{.flow = wire::LocalFlowId(1),
                                               .path_id = set.paths[0].path_id,
                                               .source_port = 60'000,
                                               .verdict = wire::PathVerdict::kLocallyRerouted,
                                               .left_port = 1}}});
  cluster_.Settle();
  const Flow& flow = cluster_.FlowOf(0, 1);
  EXPECT_EQ(flow.status, FlowStatus::kRouted);
  for (std::size_t path = 0; path < 2; ++path) {
    EXPECT_EQ(flow.subflows[path].port, set.paths[path].source_port);
  }
}

}  // namespace
}  // namespace espalier::controller
