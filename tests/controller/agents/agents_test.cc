// What the controller makes of agents that come, go and misbehave.
#include <gtest/gtest.h>

#include "common/fabric/ecmp_hash.h"
#include "controller/controller.h"
#include "tests/controller/cluster.h"

namespace espalier::controller {
namespace {

using namespace std::chrono_literals;

constexpr fabric::LeafSpineOptions kShape{.spines = 4, .leaves = 4, .hosts_per_leaf = 4};
constexpr const char* kAssignments = "espalier_controller_assignments_total";
constexpr const char* kBadMessages = "espalier_controller_bad_messages_total";

// Four flows from leaf 0 to leaf 1, which plain ECMP may put on one spine.
void OpenFourFlows(Cluster& cluster) {
  for (int i = 0; i < 4; ++i) cluster.Open(i, {{.id = 1, .to = 4 + i}});
  cluster.Settle();
}

std::set<int> SpinesOfFourFlows(const Cluster& cluster) {
  std::set<int> spines;
  for (int i = 0; i < 4; ++i) spines.insert(cluster.AppliedSpine(i, 1, 4 + i));
  return spines;
}

TEST(Controller, RaisesItsEpochAboveThatOfAnyAgent) {
  Cluster cluster(kShape);
  wire::Hello hello;
  hello.name = "h0";
  hello.highest_epoch = 41;
  cluster.SayHello(0, hello);
  cluster.Settle();
  EXPECT_EQ(cluster.disk.epoch, 42U);
  EXPECT_EQ(cluster.host(0).welcome->epoch, 42U);
}

// A program tells the agent that restarted under it of its flow when that has reported already.
TEST(Controller, AdoptsAFlowThatKeptItsPortWhileItsAgentRestarted) {
  Cluster cluster(kShape);
  cluster.ConnectAll();
  cluster.Open(0, {{.id = 1, .to = 4, .port = 50'000, .steered = true}});
  cluster.Advance(3s);
  const Flow& flow = cluster.FlowOf(0, 1);
  EXPECT_EQ(flow.status, FlowStatus::kRouted);
  ASSERT_EQ(flow.ways.size(), 1U);
  EXPECT_EQ(flow.ways[0].port, 50'000);
}

TEST(Controller, PlacesFlowsThatNoProbeCouldAdopt) {
  Cluster cluster(kShape);
  cluster.host(0).answers_probes = false;
  wire::Hello hello;
  hello.name = "h0";
  hello.highest_epoch = 1;
  cluster.SayHello(0, hello);
  cluster.Settle();  // agents wait for their Welcome
  cluster.Report(0,
                 Cluster::Opening(cluster, 0, {{.id = 1, .to = 4, .port = 50'000, .steered = true}},
                                  /*full=*/true));
  cluster.Settle();
  EXPECT_EQ(cluster.FlowOf(0, 1).status, FlowStatus::kAdopting);
  EXPECT_TRUE(cluster.host(0).pushes.empty());
  cluster.host(0).answers_probes = true;
  cluster.Advance(10s);
  EXPECT_EQ(cluster.FlowOf(0, 1).status, FlowStatus::kRouted);
}

TEST(Controller, SendsEverythingAgainWhenAPushIsNotAcknowledged) {
  Cluster cluster(kShape);
  cluster.ConnectAll();
  cluster.host(0).acknowledges = false;
  cluster.Open(0, {{.id = 1, .to = 4}});
  cluster.Settle();
  EXPECT_EQ(cluster.UnacknowledgedFlows(), 1U);
  cluster.host(0).acknowledges = true;
  cluster.Advance(2s);
  EXPECT_TRUE(cluster.host(0).pushes.back().full);
  EXPECT_EQ(cluster.AppliedSpine(0, 1, 4), 0);
  EXPECT_EQ(cluster.UnacknowledgedFlows(), 0U);
}

TEST(Controller, RefusesASecondAgentOfOneName) {
  Cluster cluster(kShape);
  cluster.ConnectAll();
  cluster.host(5).instance = 99;
  wire::Hello hello;
  hello.name = "h0";
  cluster.SayHello(5, hello);
  cluster.Settle();
  ASSERT_TRUE(cluster.host(5).welcome.has_value());
  EXPECT_FALSE(cluster.host(5).welcome->accepted);
  EXPECT_NE(cluster.host(5).welcome->reason.find("another agent of this name"), std::string::npos);
  cluster.Open(0, {{.id = 1, .to = 4}});
  cluster.Settle();
  EXPECT_EQ(cluster.AppliedSpine(0, 1, 4), 0);
}

TEST(Controller, RefusesAnotherProtocolMajor) {
  Cluster cluster(kShape);
  wire::Hello hello;
  hello.name = "h0";
  hello.protocol_major = wire::kProtocolMajor + 1;
  cluster.SayHello(0, hello);
  cluster.Settle();
  EXPECT_FALSE(cluster.host(0).welcome->accepted);
  hello.protocol_major = wire::kProtocolMajor;
  hello.protocol_minor = wire::kProtocolMinor + 7;
  cluster.SayHello(0, hello);
  cluster.Settle();
  EXPECT_TRUE(cluster.host(0).welcome->accepted);
}

TEST(Controller, LivesOnThroughMessagesThatMakeNoSense) {
  Cluster cluster(kShape);
  cluster.ConnectAll();
  OpenFourFlows(cluster);
  const std::int64_t before = cluster.CounterValue(kBadMessages);
  cluster.DeliverBytes(cluster.host(0).peer, "no protobuf at all");
  cluster.Deliver(PeerId(4'711), 1, wire::FlowReport{});  // never said Hello
  cluster.Deliver(cluster.host(0).peer, cluster.host(0).instance, wire::PathPush{.epoch = 99});
  cluster.Deliver(cluster.host(0).peer, cluster.host(0).instance,
                  wire::ProbeReport{.order = 12'345, .done = true});
  cluster.Deliver(cluster.host(0).peer, cluster.host(0).instance,
                  wire::LinkEvent{.address = cluster.Address(9), .up = false});
  cluster.Settle();
  EXPECT_GE(cluster.CounterValue(kBadMessages), before + 3);
  EXPECT_EQ(SpinesOfFourFlows(cluster), (std::set<int>{0, 1, 2, 3}));
  EXPECT_EQ(cluster.state().topology.version(), 1);
}

TEST(Controller, TakesTenThousandReportsOfOneAgentInABurst) {
  Cluster cluster(kShape);
  cluster.ConnectAll();
  for (std::uint64_t i = 1; i <= 10'000; ++i) {
    cluster.Open(0, {{.id = i, .to = 4}});
    if (i > 1) cluster.End(0, i - 1);
  }
  const std::int64_t before = cluster.CounterValue(kAssignments);
  cluster.Settle();
  EXPECT_EQ(cluster.CounterValue(kAssignments), before + 1);
  EXPECT_EQ(cluster.state().flows.size(), 1U);
  EXPECT_EQ(cluster.AppliedSpine(0, 10'000, 4), 0);
}

TEST(Controller, LimitsTheFlowsOfOneAgent) {
  Cluster cluster(kShape, {.max_flows_per_agent = 2});
  cluster.ConnectAll();
  cluster.Open(0, {{.id = 1, .to = 4}, {.id = 2, .to = 5}, {.id = 3, .to = 6}});
  cluster.Settle();
  EXPECT_EQ(cluster.state().flows.size(), 2U);
}

TEST(Controller, DropsTheFlowsOfAnAgentOnlyAfterTheLease) {
  Cluster cluster(kShape, {.lease = 20s});
  cluster.ConnectAll();
  OpenFourFlows(cluster);
  cluster.host(0).peer = PeerId(0);  // it hears nothing any more, and says nothing
  cluster.Advance(10s);
  EXPECT_EQ(cluster.state().flows.size(), 4U);
  EXPECT_FALSE(cluster.state().agents.At(*cluster.state().agents.FindByName("h0")).peer);
  cluster.Advance(15s);
  EXPECT_EQ(cluster.state().flows.size(), 3U);
}

}  // namespace
}  // namespace espalier::controller
