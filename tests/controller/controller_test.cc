#include "controller/controller.h"

#include <gtest/gtest.h>

#include "common/fabric/ecmp_hash.h"
#include "tests/controller/cluster.h"

namespace espalier::controller {
namespace {

using namespace std::chrono_literals;

constexpr fabric::LeafSpineOptions kShape{.spines = 4, .leaves = 4, .hosts_per_leaf = 4};
constexpr const char* kAssignments = "espalier_controller_assignments_total";
constexpr const char* kMismatches = "espalier_controller_path_map_mismatches_total";

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

TEST(Controller, LearnsAPortAndPushesIt) {
  Cluster cluster(kShape);
  cluster.ConnectAll();
  cluster.Open(0, {{.id = 7, .to = 4}});
  EXPECT_EQ(cluster.host(0).ports.size(), 0U);
  cluster.Settle();
  EXPECT_EQ(cluster.FlowOf(0, 7).status, FlowStatus::kRouted);
  EXPECT_EQ(cluster.AppliedSpine(0, 7, 4), 0);
  EXPECT_EQ(cluster.UnacknowledgedFlows(), 0U);
}

TEST(Controller, KeepsFlowsApart) {
  Cluster cluster(kShape);
  cluster.ConnectAll();
  OpenFourFlows(cluster);
  EXPECT_EQ(SpinesOfFourFlows(cluster), (std::set<int>{0, 1, 2, 3}));
  EXPECT_EQ(cluster.state().flow_paths.live().MaxLoad(), (Load{1, 1}));
}

TEST(Controller, AssignsABurstOfAThousandStartsOnce) {
  Cluster cluster(kShape);
  cluster.ConnectAll();
  for (int from = 0; from < 16; ++from) {
    std::vector<Cluster::NewFlow> flows;
    for (std::uint64_t id = 1; id <= 63; ++id) {
      flows.push_back({.id = id, .to = (from + 4 + static_cast<int>(id % 8)) % 16});
    }
    cluster.Open(from, flows);
  }
  const std::int64_t before = cluster.CounterValue(kAssignments);
  cluster.Settle();
  EXPECT_EQ(cluster.CounterValue(kAssignments), before + 1);
  EXPECT_EQ(cluster.state().flows.size(), 16U * 63U);
}

TEST(Controller, LeavesLiveFlowsWhereTheyAre) {
  Cluster cluster(kShape);
  cluster.ConnectAll();
  OpenFourFlows(cluster);
  const auto before = cluster.host(3).ports;
  cluster.End(0, 1);
  cluster.Open(0, {{.id = 2, .to = 8, .job = "another"}});
  cluster.Settle();
  EXPECT_EQ(cluster.host(3).ports, before);
  EXPECT_EQ(cluster.AppliedSpine(0, 2, 8), 0);
  EXPECT_EQ(cluster.state().flow_paths.live().MaxLoad(), (Load{1, 1}));
}

TEST(Controller, GivesLocalFlowsAndUnknownEndsNoPort) {
  Cluster cluster(kShape);
  cluster.ConnectAll();
  cluster.Open(0, {{.id = 1, .to = 1}});
  wire::FlowReport stranger = Cluster::Opening(cluster, 0, {{.id = 2, .to = 5}});
  stranger.addresses[1] = *IpAddress::Parse("192.0.2.1");
  cluster.Report(0, stranger);
  wire::FlowReport not_its_own = Cluster::Opening(cluster, 3, {{.id = 3, .to = 5}});
  cluster.Report(0, not_its_own);
  cluster.Settle();
  EXPECT_EQ(cluster.FlowOf(0, 1).status, FlowStatus::kLocal);
  EXPECT_EQ(cluster.FlowOf(0, 2).status, FlowStatus::kUnroutable);
  EXPECT_EQ(cluster.FlowOf(0, 3).status, FlowStatus::kUnroutable);
  EXPECT_TRUE(cluster.host(0).ports.empty());
}

TEST(Controller, MovesExactlyTheFlowsOfAFailedFarLink) {
  Cluster cluster(kShape);
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

TEST(Controller, NeverPlacesAFlowOnALinkThatIsFailedAlready) {
  Cluster cluster(kShape);
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

TEST(Controller, PlacesUnroutableFlowsWhenALinkIsRestored) {
  Cluster cluster({.spines = 1, .leaves = 2, .hosts_per_leaf = 1});
  cluster.ConnectAll();
  ASSERT_TRUE(cluster.ChangeLink("leaf0--spine0", IntentAction::kFail).has_value());
  cluster.Open(0, {{.id = 1, .to = 1}});
  cluster.Settle();
  EXPECT_EQ(cluster.FlowOf(0, 1).status, FlowStatus::kUnroutable);
  ASSERT_TRUE(cluster.ChangeLink("leaf0--spine0", IntentAction::kRestore).has_value());
  EXPECT_TRUE(cluster.state().HasPaths(cluster.FlowOf(0, 1)));
}

TEST(Controller, DryRunsChangeNothing) {
  Cluster cluster(kShape);
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

TEST(Controller, RefusesOperatorCommandsThatMakeNoSense) {
  Cluster cluster(kShape);
  EXPECT_EQ(cluster.ChangeLink("leaf9--spine9", IntentAction::kFail).error().code,
            ErrorCode::kNotFound);
  EXPECT_EQ(cluster.ChangeLink("leaf0--spine0", IntentAction::kRestore).error().code,
            ErrorCode::kAlreadyExists);
  EXPECT_TRUE(cluster.ChangeLink("leaf0--spine0", IntentAction::kFail).has_value());
  EXPECT_EQ(cluster.ChangeLink("leaf0--spine0", IntentAction::kFail).error().code,
            ErrorCode::kAlreadyExists);
  EXPECT_EQ(cluster.ChangeNode("spine77", IntentAction::kFail).error().code, ErrorCode::kNotFound);
}

TEST(Controller, RestoresALinkThatTheTopologyFileSaysIsDown) {
  fabric::TopologySpec spec = *fabric::BuildLeafSpine(kShape);
  for (fabric::Link& link : spec.links) {
    if (link.id == "leaf0--spine0") link.state = fabric::LinkState::kDown;
    if (link.id == "leaf0--spine1") link.state = fabric::LinkState::kDrained;
  }
  Cluster cluster(spec, {});
  const auto state_of = [&](const char* id) {
    const fabric::Topology& topology = cluster.state().topology;
    return topology.link(*topology.FindLink(id)).state;
  };
  EXPECT_EQ(cluster.ChangeLink("leaf0--spine0", IntentAction::kFail).error().code,
            ErrorCode::kAlreadyExists);
  EXPECT_TRUE(cluster.ChangeLink("leaf0--spine0", IntentAction::kRestore).has_value());
  EXPECT_TRUE(cluster.ChangeLink("leaf0--spine1", IntentAction::kUndrain).has_value());
  EXPECT_EQ(state_of("leaf0--spine0"), fabric::LinkState::kUp);
  EXPECT_EQ(state_of("leaf0--spine1"), fabric::LinkState::kUp);
  EXPECT_EQ(cluster.ChangeLink("leaf0--spine0", IntentAction::kRestore).error().code,
            ErrorCode::kAlreadyExists);
  EXPECT_TRUE(cluster.ChangeLink("leaf0--spine0", IntentAction::kFail).has_value());
  EXPECT_EQ(state_of("leaf0--spine0"), fabric::LinkState::kDown);
}

TEST(Controller, MovesNothingWhenTheIntentCannotBeSaved) {
  Cluster cluster(kShape);
  cluster.ConnectAll();
  OpenFourFlows(cluster);
  cluster.disk.is_full = true;
  const auto outcome = cluster.ChangeLink("leaf1--spine2", IntentAction::kFail);
  EXPECT_EQ(outcome.error().code, ErrorCode::kResourceExhausted);
  cluster.Settle();
  EXPECT_EQ(cluster.state().topology.version(), 1);
  EXPECT_EQ(SpinesOfFourFlows(cluster), (std::set<int>{0, 1, 2, 3}));
}

TEST(Controller, FailsAllLinksOfANode) {
  Cluster cluster(kShape);
  cluster.ConnectAll();
  OpenFourFlows(cluster);
  const auto outcome = cluster.ChangeNode("spine1", IntentAction::kFail);
  EXPECT_EQ(outcome->moves.size(), 1U);
  EXPECT_EQ(outcome->version, 1 + 4);
  cluster.Settle();
  EXPECT_FALSE(SpinesOfFourFlows(cluster).contains(1));
  EXPECT_FALSE(SpinesOfFourFlows(cluster).contains(-1));
}

TEST(Controller, DrainsAtAMessageBoundary) {
  Cluster cluster(kShape);
  cluster.ConnectAll();
  OpenFourFlows(cluster);
  ASSERT_TRUE(
      cluster.ChangeLink("leaf0--spine3", IntentAction::kDrain, {.reason = "optics"}).has_value());
  cluster.Settle();
  EXPECT_EQ(cluster.host(3).pushes.back().sets[0].reason, wire::PathReason::kRecomputed);
  EXPECT_FALSE(SpinesOfFourFlows(cluster).contains(3));
}

TEST(Controller, RecomputesAllFlowsOnTheOperatorsWord) {
  Cluster cluster(kShape);
  cluster.ConnectAll();
  ASSERT_TRUE(cluster.ChangeNode("spine0", IntentAction::kFail).has_value());
  OpenFourFlows(cluster);
  EXPECT_EQ(cluster.state().flow_paths.live().MaxLoad(), (Load{2, 1}));
  ASSERT_TRUE(cluster.ChangeNode("spine0", IntentAction::kRestore).has_value());
  cluster.Settle();
  EXPECT_EQ(cluster.state().flow_paths.live().MaxLoad(), (Load{2, 1}));  // live flows stay
  EXPECT_GT(cluster.Recompute()->moves.size(), 0U);
  cluster.Settle();
  EXPECT_EQ(SpinesOfFourFlows(cluster), (std::set<int>{0, 1, 2, 3}));
}

TEST(Controller, RestartMovesNothingAndForgetsNoFailedLink) {
  Cluster cluster(kShape);
  cluster.ConnectAll();
  OpenFourFlows(cluster);
  ASSERT_TRUE(cluster.ChangeLink("leaf1--spine2", IntentAction::kFail).has_value());
  cluster.Settle();
  const std::uint64_t epoch = cluster.disk.epoch;
  std::vector<std::map<std::uint64_t, std::uint16_t>> before;
  for (int i = 0; i < 4; ++i) before.push_back(cluster.host(i).ports);

  cluster.RestartController();
  for (int i = 0; i < 4; ++i) {
    wire::Hello hello;
    hello.name = cluster.host(i).name;
    hello.highest_epoch = cluster.host(i).epoch;
    cluster.SayHello(i, hello);
    cluster.Settle();  // agents wait for their Welcome
    cluster.Report(
        i, Cluster::Opening(
               cluster, i,
               {{.id = 1, .to = 4 + i, .port = cluster.host(i).ports.at(1), .steered = true}},
               /*full=*/true));
  }
  cluster.Advance(3s);
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(cluster.host(i).ports, before[static_cast<std::size_t>(i)]) << i;
    EXPECT_EQ(cluster.FlowOf(i, 1).status, FlowStatus::kRouted);
  }
  EXPECT_GT(cluster.disk.epoch, epoch);
  const auto link = *cluster.state().topology.FindLink("leaf1--spine2");
  EXPECT_EQ(cluster.state().topology.link(link).state, fabric::LinkState::kDown);
}

TEST(Controller, FindsOutWhenAPortLeadsElsewhere) {
  Cluster cluster(kShape, {.verify_interval = 100ms});
  cluster.ConnectAll();
  cluster.Open(0, {{.id = 1, .to = 4}});
  cluster.Settle();
  ASSERT_EQ(cluster.AppliedSpine(0, 1, 4), 0);
  const auto before = cluster.hash;
  cluster.hash = [before](int from, int to, std::uint16_t port) {
    return (before(from, to, port) + 1) % 4;
  };
  cluster.Advance(3s);
  EXPECT_GE(cluster.CounterValue(kMismatches), 1);
  EXPECT_EQ(cluster.AppliedSpine(0, 1, 4), 0);
}

TEST(Controller, LeavesFlowsOnEcmpWhereSwitchesDoNotAnswer) {
  Cluster cluster(kShape);
  cluster.ConnectAll();
  cluster.host(0).answers_probes = false;
  cluster.Open(0, {{.id = 1, .to = 4}});
  cluster.Advance(5s);
  EXPECT_EQ(cluster.FlowOf(0, 1).status, FlowStatus::kLearning);
  EXPECT_TRUE(cluster.host(0).ports.empty());
  // The pace goes down to what limited switches let through: a few a second, not thousands.
  const int early = cluster.host(0).probes;
  cluster.Advance(5s);
  EXPECT_LT(cluster.host(0).probes - early, 200);
  cluster.host(0).answers_probes = true;
  cluster.Advance(5s);
  EXPECT_EQ(cluster.FlowOf(0, 1).status, FlowStatus::kRouted);
}

TEST(Controller, RecognisesALinearHashAndPredictsTheOtherPairsOfTheLeaves) {
  Cluster cluster(kShape);
  cluster.hash = [](int from, int to, std::uint16_t port) {
    return (from ^ to ^ port ^ (port >> 3) ^ (port >> 7)) & 3;
  };
  cluster.ConnectAll();
  for (std::uint64_t id = 1; id <= 8; ++id) cluster.Open(0, {{.id = id, .to = 4}});
  cluster.Settle();
  // Another pair of hosts under the same leaves: one round of probes gives the constant.
  cluster.Open(1, {{.id = 1, .to = 6}});
  cluster.Settle();
  cluster.host(1).answers_probes = false;  // from here on only the model can know
  std::vector<Cluster::NewFlow> flows;
  for (std::uint64_t id = 2; id <= 60; ++id) flows.push_back({.id = id, .to = 6});
  cluster.Open(1, flows);
  cluster.Settle();
  for (std::uint64_t id = 1; id <= 60; ++id) {
    const Flow& flow = cluster.FlowOf(1, id);
    ASSERT_EQ(flow.status, FlowStatus::kRouted) << id;
    EXPECT_EQ(cluster.AppliedSpine(1, id, 6), flow.ways[0].port_path.value());
  }
  EXPECT_EQ(cluster.CounterValue(kMismatches), 0);
}

TEST(Controller, StopsTrustingAModelThatAProbeContradicts) {
  fabric::LeafSpineOptions shape = kShape;
  Cluster cluster(shape, {}, fabric::EcmpSpec{.hash = "crc32", .seed = 7});
  cluster.ConnectAll();  // the fabric hashes otherwise than the topology file says
  OpenFourFlows(cluster);
  EXPECT_GE(cluster.CounterValue(kMismatches), 1);
  EXPECT_EQ(SpinesOfFourFlows(cluster), (std::set<int>{0, 1, 2, 3}));
}

// The topology file names the leaves' hash. The spine is failed for the controller, whose model has
// the leaves leave it, but they go on hashing onto it: no probe of a port that leads there is ever
// answered.
TEST(Controller, FlowsLeavePredictedPortsThatLeadIntoADeadSpine) {
  const fabric::EcmpSpec hash{.hash = "crc32", .seed = 7};
  Cluster cluster(kShape, {}, hash);
  const auto leaf = *fabric::MakeEcmpHash(hash);
  cluster.hash = [&](int from, int to, std::uint16_t port) {
    return static_cast<int>(leaf->Choose(
        {.source = cluster.Address(from), .destination = cluster.Address(to), .source_port = port},
        4));
  };
  cluster.ConnectAll();
  ASSERT_TRUE(cluster.ChangeNode("spine1", IntentAction::kFail).has_value());
  cluster.dark_spines = {1};
  for (int i = 0; i < 4; ++i) {
    cluster.Open(i, {{.id = 1, .to = 4 + i}, {.id = 2, .to = 8 + i}, {.id = 3, .to = 12 + i}});
  }
  cluster.Settle();
  cluster.Advance(10s);
  for (int i = 0; i < 4; ++i) {
    for (std::uint64_t id = 1; id <= 3; ++id) {
      const int to = i + 4 * static_cast<int>(id);
      const Flow& flow = cluster.FlowOf(i, id);
      EXPECT_EQ(flow.status, FlowStatus::kRouted);
      EXPECT_EQ(cluster.AppliedSpine(i, id, to),
                cluster.state().flow_paths.PathOf(flow.ways[0])->value())
          << "flow " << id << " of host " << i;
    }
  }
  EXPECT_GE(cluster.CounterValue("espalier_controller_predicted_ports_given_up_total"), 1);
}

TEST(Controller, FollowsAnAgentThatLeftADeadPathByItself) {
  Cluster cluster(kShape);
  cluster.ConnectAll();
  cluster.Open(0, {{.id = 1, .to = 4}});
  cluster.Settle();
  std::uint16_t port = 60'000;
  while (cluster.SpineOf(0, 4, port) != 3) ++port;
  cluster.host(0).ports[1] = port;
  cluster.Deliver(cluster.host(0).peer, cluster.host(0).instance,
                  wire::PathHealth{.flows = {{.flow = wire::LocalFlowId(1),
                                              .source_port = port,
                                              .verdict = wire::PathVerdict::kRedrawn}}});
  cluster.Settle();
  EXPECT_EQ(cluster.FlowOf(0, 1).status, FlowStatus::kRouted);
  EXPECT_EQ(cluster.FlowOf(0, 1).ways[0].port, port);
  EXPECT_EQ(cluster.state().flow_paths.PathOf(cluster.FlowOf(0, 1).ways[0]), fabric::PathIndex(3));
  EXPECT_EQ(cluster.state().flow_paths.live().MaxLoad(), (Load{1, 1}));
}

TEST(Controller, ServesAHostWithSeveralNics) {
  fabric::TopologySpec spec = *fabric::BuildLeafSpine(kShape);
  for (fabric::Node& node : spec.nodes) {
    if (node.id == "h4" || node.id == "h0") node.host = "h0";  // on leaves 1 and 0
  }
  Cluster cluster(std::move(spec), {});
  cluster.ConnectAll();
  cluster.Open(0, {{.id = 1, .to = 8}});
  wire::FlowReport other_nic = Cluster::Opening(cluster, 4, {{.id = 2, .to = 8}});
  cluster.Report(0, other_nic);
  cluster.Settle();
  EXPECT_EQ(cluster.FlowOf(0, 1).status, FlowStatus::kRouted);
  EXPECT_EQ(cluster.FlowOf(0, 2).status, FlowStatus::kRouted);
  EXPECT_EQ(cluster.SpineOf(4, 8, cluster.host(0).ports.at(2)), 1);  // apart at leaf 2
  cluster.Report(4, other_nic);  // the NIC is not the other agent's
  EXPECT_EQ(cluster.FlowOf(4, 2).status, FlowStatus::kUnroutable);
}

TEST(Controller, LeavesFlowsOfALeafThatIsGoneOnEcmp) {
  Cluster cluster(kShape);
  cluster.ConnectAll();
  OpenFourFlows(cluster);
  const auto gone = cluster.ChangeNode("leaf1", IntentAction::kFail, {.reason = "power"});
  ASSERT_TRUE(gone.has_value());
  EXPECT_EQ(gone->moves.size(), 4U);
  cluster.Settle();
  EXPECT_EQ(SpinesOfFourFlows(cluster), (std::set<int>{-1}));
  EXPECT_EQ(cluster.FlowOf(0, 1).status, FlowStatus::kUnroutable);
  EXPECT_EQ(cluster.state().flow_paths.live().MaxLoad(), (Load{0, 1}));
  ASSERT_TRUE(cluster.ChangeNode("leaf1", IntentAction::kRestore).has_value());
  cluster.Settle();
  EXPECT_EQ(SpinesOfFourFlows(cluster), (std::set<int>{0, 1, 2, 3}));
}

TEST(Controller, TakesTheWordOfAnAgentForItsOwnNic) {
  Cluster cluster(kShape);
  cluster.ConnectAll();
  cluster.Deliver(cluster.host(0).peer, cluster.host(0).instance,
                  wire::LinkEvent{.address = cluster.Address(0), .up = false, .source = "nic"});
  EXPECT_EQ(cluster.state().topology.version(), 2);
  cluster.Deliver(cluster.host(0).peer, cluster.host(0).instance,
                  wire::LinkEvent{.address = cluster.Address(0), .up = true, .source = "nic"});
  EXPECT_EQ(cluster.state().topology.version(), 3);
}

}  // namespace
}  // namespace espalier::controller
