// Tests the effects of operators' actions on flows.
#include "controller/operations/action_effects.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/controller/four_flows.h"

namespace espalier::controller {
namespace {

TEST(ActionEffects, MovesExactlyTheFlowsOfAFailedFarLink) {
  Cluster cluster(kFourLeaves);
  cluster.ConnectAll();
  OpenFourFlows(cluster);
  std::vector<std::size_t> pushes;
  for (int i = 0; i < 4; ++i) pushes.push_back(cluster.host(i).pushes.size());
  const auto outcome = cluster.ChangeLink("leaf1--spine2", IntentAction::kFail);
  ASSERT_TRUE(outcome.has_value()) << outcome.error().message;
  ASSERT_EQ(outcome->moves.size(), 1U);
  EXPECT_EQ(outcome->moves[0].flow, "h2:1");
  EXPECT_EQ(outcome->moves[0].from, "spine2");
  EXPECT_EQ(outcome->version, 2);
  cluster.Settle();
  for (int i : {0, 1, 3}) {
    EXPECT_EQ(cluster.host(i).pushes.size(), pushes[static_cast<std::size_t>(i)]) << i;
  }
  EXPECT_EQ(cluster.host(2).pushes.back().sets[0].reason, wire::PathReason::kPathDead);
  EXPECT_NE(cluster.AppliedSpine(2, 1, 6), 2);
  EXPECT_NE(cluster.AppliedSpine(2, 1, 6), -1);
}

TEST(ActionEffects, NeverPlacesAFlowOnALinkThatIsFailedAlready) {
  Cluster cluster(kFourLeaves);
  cluster.ConnectAll();
  for (const char* link : {"leaf1--spine0", "leaf0--spine1", "leaf1--spine3"}) {
    ASSERT_TRUE(cluster.ChangeLink(link, IntentAction::kFail).has_value());
  }
  OpenFourFlows(cluster);
  EXPECT_EQ(SpinesOfFourFlows(cluster), (std::set<int>{2}));
  cluster.Recompute();
  cluster.Settle();
  EXPECT_EQ(SpinesOfFourFlows(cluster), (std::set<int>{2}));
}

TEST(ActionEffects, PlacesUnroutableFlowsWhenALinkIsRestored) {
  Cluster cluster({.spines = 1, .leaves = 2, .hosts_per_leaf = 1});
  cluster.ConnectAll();
  ASSERT_TRUE(cluster.ChangeLink("leaf0--spine0", IntentAction::kFail).has_value());
  cluster.Open(0, {{.id = 1, .to = 1}});
  cluster.Settle();
  EXPECT_EQ(cluster.FlowOf(0, 1).status, FlowStatus::kUnroutable);
  ASSERT_TRUE(cluster.ChangeLink("leaf0--spine0", IntentAction::kRestore).has_value());
  EXPECT_TRUE(cluster.state().HasPaths(cluster.FlowOf(0, 1)));
}

TEST(ActionEffects, DryRunsChangeNothing) {
  Cluster cluster(kFourLeaves);
  cluster.ConnectAll();
  OpenFourFlows(cluster);
  const std::uint64_t before = cluster.disk.revision;
  const auto outcome = cluster.ChangeLink("leaf1--spine2", IntentAction::kFail, {.dry_run = true});
  ASSERT_EQ(outcome->moves.size(), 1U);
  EXPECT_EQ(outcome->version, 1);
  cluster.Recompute({.dry_run = true});
  cluster.Settle();
  EXPECT_EQ(cluster.disk.revision, before);
  EXPECT_TRUE(cluster.disk.audit.empty());
  EXPECT_EQ(SpinesOfFourFlows(cluster), (std::set<int>{0, 1, 2, 3}));
}

TEST(ActionEffects, FailsAllLinksOfANode) {
  Cluster cluster(kFourLeaves);
  cluster.ConnectAll();
  OpenFourFlows(cluster);
  const auto outcome = cluster.ChangeNode("spine1", IntentAction::kFail);
  EXPECT_EQ(outcome->moves.size(), 1U);
  EXPECT_EQ(outcome->version, 1 + 4);
  cluster.Settle();
  EXPECT_FALSE(SpinesOfFourFlows(cluster).contains(1));
  EXPECT_FALSE(SpinesOfFourFlows(cluster).contains(-1));
}

TEST(ActionEffects, DrainsAtAMessageBoundary) {
  Cluster cluster(kFourLeaves);
  cluster.ConnectAll();
  OpenFourFlows(cluster);
  ASSERT_TRUE(
      cluster.ChangeLink("leaf0--spine3", IntentAction::kDrain, {.reason = "optics"}).has_value());
  cluster.Settle();
  EXPECT_EQ(cluster.host(3).pushes.back().sets[0].reason, wire::PathReason::kAssigned);
  EXPECT_FALSE(SpinesOfFourFlows(cluster).contains(3));
}

// Switches know nothing of a drain, so what is known about ports stays true.
TEST(ActionEffects, ADrainNeedsNoProbeForAPort) {
  Cluster cluster(kFourLeaves, {.verification = {.interval = Duration::zero()}});
  cluster.ConnectAll();
  OpenFourFlows(cluster);
  const int before = cluster.host(3).probes;
  ASSERT_TRUE(cluster.ChangeLink("leaf0--spine3", IntentAction::kDrain).has_value());
  cluster.Settle();
  EXPECT_FALSE(SpinesOfFourFlows(cluster).contains(3));
  ASSERT_TRUE(cluster.ChangeLink("leaf0--spine3", IntentAction::kUndrain).has_value());
  cluster.Advance(std::chrono::seconds(3));
  EXPECT_EQ(SpinesOfFourFlows(cluster), (std::set<int>{0, 1, 2, 3}));
  EXPECT_EQ(cluster.host(3).probes, before);
  ASSERT_TRUE(cluster.ChangeLink("leaf0--spine3", IntentAction::kFail).has_value());
  cluster.Advance(std::chrono::seconds(3));
  EXPECT_GT(cluster.host(3).probes, before) << "after a loss, every port may lead elsewhere";
}

// The switches' routing protocol may follow a change of links only after the first probes.
TEST(ActionEffects, PortsAreVerifiedAgainWhenRoutesHaveSettled) {
  Cluster cluster(kFourLeaves, {.verification = {.interval = Duration::zero()}});
  cluster.ConnectAll();
  OpenFourFlows(cluster);
  ASSERT_TRUE(cluster.ChangeLink("leaf1--spine3", IntentAction::kFail).has_value());
  cluster.Advance(std::chrono::milliseconds(500));
  const auto withdrawn = [](int, int, std::uint16_t port) { return port % 3; };
  cluster.hash = withdrawn;
  cluster.Advance(std::chrono::seconds(5));
  for (int i = 0; i < 4; ++i) {
    const Flow& flow = cluster.FlowOf(i, 1);
    EXPECT_EQ(flow.status, FlowStatus::kRouted) << i;
    EXPECT_EQ(cluster.state().flow_paths.PathOf(flow.subflows.front()),
              fabric::PathIndex(withdrawn(i, 4 + i, flow.subflows.front().port)))
        << i;
  }
}

// Without any change of links: a route was withdrawn further away.
TEST(ActionEffects, FlowsLeaveAPathThatNoPortTakes) {
  Cluster cluster(kFourLeaves);
  cluster.hash = [](int, int, std::uint16_t port) { return 1 + port % 3; };
  cluster.ConnectAll();
  OpenFourFlows(cluster);
  cluster.Advance(std::chrono::seconds(5));
  for (int i = 0; i < 4; ++i) EXPECT_EQ(cluster.FlowOf(i, 1).status, FlowStatus::kRouted) << i;
  EXPECT_EQ(SpinesOfFourFlows(cluster), (std::set<int>{1, 2, 3}));
}

// An operator may have taken the link out of the switch's choice, too, without a loss of carrier.
TEST(ActionEffects, ADrainIsVerifiedSoon) {
  Cluster cluster(kFourLeaves, {.verification = {.interval = std::chrono::minutes(5)}});
  cluster.ConnectAll();
  OpenFourFlows(cluster);
  cluster.Advance(std::chrono::seconds(30));  // the ports are noted as in use, and verified
  const auto drained = [](int, int, std::uint16_t port) { return port % 3; };
  cluster.hash = drained;
  // No flow is on it, so that none has to move, which would verify its new port.
  ASSERT_TRUE(cluster.ChangeLink("leaf2--spine3", IntentAction::kDrain).has_value());
  cluster.Advance(std::chrono::seconds(60));  // without the drain, they are due after minutes
  for (int i = 0; i < 4; ++i) {
    const Flow& flow = cluster.FlowOf(i, 1);
    ASSERT_EQ(flow.status, FlowStatus::kRouted);
    const auto known = cluster.state().path_map.Find(flow.key, flow.subflows.front().port);
    ASSERT_TRUE(known.has_value());
    EXPECT_EQ(known->trust, fabric::PortTrust::kVerified);
    const auto paths = cluster.state().PathsOf(flow);
    const fabric::DirectedLink up = paths[known->path.Index()].hops.front();
    EXPECT_EQ(cluster.state().topology.link(up.link).id,
              "leaf0--spine" + std::to_string(drained(i, 4 + i, known->port)));
  }
}

}  // namespace
}  // namespace espalier::controller
