#include "controller/controller.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "common/fabric/ecmp/ecmp_hash.h"
#include "tests/controller/four_flows.h"

namespace espalier::controller {
namespace {

using namespace std::chrono_literals;

constexpr const char* kAssignments = "espalier_controller_assignments_total";
constexpr const char* kBadMessages = "espalier_controller_bad_messages_total";
constexpr const char* kMismatches = "espalier_controller_path_map_mismatches_total";

TEST(Controller, LearnsAPortAndPushesIt) {
  Cluster cluster(kFourLeaves);
  cluster.ConnectAll();
  cluster.Open(0, {{.id = 7, .to = 4}});
  EXPECT_EQ(cluster.host(0).ports.size(), 0U);
  cluster.Settle();
  EXPECT_EQ(cluster.FlowOf(0, 7).status, FlowStatus::kRouted);
  EXPECT_EQ(cluster.AppliedSpine(0, 7, 4), 0);
  EXPECT_EQ(cluster.UnacknowledgedFlows(), 0U);
}

TEST(Controller, KeepsFlowsApart) {
  Cluster cluster(kFourLeaves);
  cluster.ConnectAll();
  OpenFourFlows(cluster);
  EXPECT_EQ(SpinesOfFourFlows(cluster), (std::set<int>{0, 1, 2, 3}));
  EXPECT_EQ(cluster.state().flow_paths.assigner().MaxLoad(), (Load{1, 1}));
}

TEST(Controller, AssignsABurstOfAThousandStartsOnce) {
  Cluster cluster(kFourLeaves);
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

TEST(Controller, LeavesFlowsInProgressOnTheirPaths) {
  Cluster cluster(kFourLeaves);
  cluster.ConnectAll();
  OpenFourFlows(cluster);
  const auto before = cluster.host(3).ports;
  cluster.End(0, 1);
  cluster.Open(0, {{.id = 2, .to = 8, .job = "another"}});
  cluster.Settle();
  EXPECT_EQ(cluster.host(3).ports, before);
  EXPECT_EQ(cluster.AppliedSpine(0, 2, 8), 0);
  EXPECT_EQ(cluster.state().flow_paths.assigner().MaxLoad(), (Load{1, 1}));
}

TEST(Controller, RefusesInvalidOperatorCommands) {
  Cluster cluster(kFourLeaves);
  EXPECT_EQ(cluster.ChangeLink("leaf9--spine9", IntentAction::kFail).error().code,
            ErrorCode::kNotFound);
  EXPECT_EQ(cluster.ChangeLink("leaf0--spine0", IntentAction::kRestore).error().code,
            ErrorCode::kAlreadyExists);
  EXPECT_TRUE(cluster.ChangeLink("leaf0--spine0", IntentAction::kFail).has_value());
  EXPECT_EQ(cluster.ChangeLink("leaf0--spine0", IntentAction::kFail).error().code,
            ErrorCode::kAlreadyExists);
  EXPECT_EQ(cluster.ChangeNode("spine77", IntentAction::kFail).error().code, ErrorCode::kNotFound);
}

TEST(Controller, RestoresALinkThatIsDownInTheTopologyFile) {
  fabric::TopologySpec spec = *fabric::BuildLeafSpine(kFourLeaves);
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
  Cluster cluster(kFourLeaves);
  cluster.ConnectAll();
  OpenFourFlows(cluster);
  cluster.disk.is_full = true;
  const auto outcome = cluster.ChangeLink("leaf1--spine2", IntentAction::kFail);
  EXPECT_EQ(outcome.error().code, ErrorCode::kResourceExhausted);
  cluster.Settle();
  EXPECT_EQ(cluster.state().topology.version(), 1);
  EXPECT_EQ(SpinesOfFourFlows(cluster), (std::set<int>{0, 1, 2, 3}));
}

TEST(Controller, ReportsThatStoredIntentsBelongToAnotherTopology) {
  Cluster cluster(kFourLeaves);
  ASSERT_TRUE(cluster.ChangeLink("leaf1--spine2", IntentAction::kFail).has_value());
  const auto count = [&] {
    const auto events = cluster.state().history.Since(0, 1'000);
    return std::ranges::count(events, "topology_differs", &HistoryEvent::kind);
  };
  cluster.RestartController();
  EXPECT_EQ(count(), 0);
  cluster.disk.sets.at(cluster.disk.revision).second.name = "other";
  cluster.RestartController();
  EXPECT_EQ(count(), 1);
}

TEST(Controller, RecomputesAllFlowsOnRequest) {
  Cluster cluster(kFourLeaves);
  cluster.ConnectAll();
  ASSERT_TRUE(cluster.ChangeNode("spine0", IntentAction::kFail).has_value());
  OpenFourFlows(cluster);
  EXPECT_EQ(cluster.state().flow_paths.assigner().MaxLoad(), (Load{2, 1}));
  ASSERT_TRUE(cluster.ChangeNode("spine0", IntentAction::kRestore).has_value());
  cluster.Settle();
  EXPECT_EQ(cluster.state().flow_paths.assigner().MaxLoad(), (Load{2, 1}));  // live flows stay
  EXPECT_GT(cluster.Recompute()->moves.size(), 0U);
  cluster.Settle();
  EXPECT_EQ(SpinesOfFourFlows(cluster), (std::set<int>{0, 1, 2, 3}));
}

TEST(Controller, ARestartMovesNoFlowsAndKeepsFailedLinks) {
  Cluster cluster(kFourLeaves);
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

TEST(Controller, RaisesItsEpochAboveThatOfAnyAgent) {
  Cluster cluster(kFourLeaves);
  wire::Hello hello;
  hello.name = "h0";
  hello.highest_epoch = 41;
  cluster.SayHello(0, hello);
  cluster.Settle();
  EXPECT_EQ(cluster.disk.epoch, 42U);
  EXPECT_EQ(cluster.host(0).welcome->epoch, 42U);
}

TEST(Controller, SendsAFullPushIfAPushIsNotAcknowledged) {
  Cluster cluster(kFourLeaves);
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
  Cluster cluster(kFourLeaves);
  cluster.ConnectAll();
  cluster.host(5).instance = 99;
  wire::Hello hello;
  hello.name = "h0";
  cluster.SayHello(5, hello);
  cluster.Settle();
  ASSERT_TRUE(cluster.host(5).welcome.has_value());
  EXPECT_FALSE(cluster.host(5).welcome->accepted);
  EXPECT_NE(cluster.host(5).welcome->reason.find("another agent with this name"),
            std::string::npos);
  cluster.Open(0, {{.id = 1, .to = 4}});
  cluster.Settle();
  EXPECT_EQ(cluster.AppliedSpine(0, 1, 4), 0);
}

TEST(Controller, RefusesAnotherProtocolMajor) {
  Cluster cluster(kFourLeaves);
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

TEST(Controller, SurvivesInvalidMessages) {
  Cluster cluster(kFourLeaves);
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
  Cluster cluster(kFourLeaves);
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
  Cluster cluster(kFourLeaves, {.max_flows_per_agent = 2});
  cluster.ConnectAll();
  cluster.Open(0, {{.id = 1, .to = 4}, {.id = 2, .to = 5}, {.id = 3, .to = 6}});
  cluster.Settle();
  EXPECT_EQ(cluster.state().flows.size(), 2U);
}

TEST(Controller, DropsTheFlowsOfAnAgentOnlyAfterTheLease) {
  Cluster cluster(kFourLeaves, {.lease = 20s});
  cluster.ConnectAll();
  OpenFourFlows(cluster);
  cluster.host(0).peer = PeerId(0);  // it hears nothing any more, and says nothing
  cluster.Advance(10s);
  EXPECT_EQ(cluster.state().flows.size(), 4U);
  EXPECT_FALSE(cluster.state().agents.At(*cluster.state().agents.FindByName("h0")).peer);
  cluster.Advance(15s);
  EXPECT_EQ(cluster.state().flows.size(), 3U);
}

TEST(Controller, LeavesFlowsOnEcmpIfSwitchesDoNotAnswer) {
  Cluster cluster(kFourLeaves);
  cluster.ConnectAll();
  cluster.host(0).answers_probes = false;
  cluster.Open(0, {{.id = 1, .to = 4}});
  cluster.Advance(5s);
  EXPECT_EQ(cluster.FlowOf(0, 1).status, FlowStatus::kLearning);
  EXPECT_TRUE(cluster.host(0).ports.empty());
  // The pace falls to what rate-limited switches answer: a few probes a second, not thousands.
  const int early = cluster.host(0).probes;
  cluster.Advance(5s);
  EXPECT_LT(cluster.host(0).probes - early, 200);
  cluster.host(0).answers_probes = true;
  cluster.Advance(5s);
  EXPECT_EQ(cluster.FlowOf(0, 1).status, FlowStatus::kRouted);
}

TEST(Controller, RecognisesALinearHashAndPredictsTheOtherPairsOfTheLeaves) {
  Cluster cluster(kFourLeaves);
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
    EXPECT_EQ(cluster.AppliedSpine(1, id, 6), flow.subflows[0].port_path.value());
  }
  EXPECT_EQ(cluster.CounterValue(kMismatches), 0);
}

TEST(Controller, StopsTrustingAModelThatAProbeContradicts) {
  fabric::LeafSpineOptions shape = kFourLeaves;
  Cluster cluster(shape, {}, fabric::EcmpSpec{.hash = "crc32", .seed = 7});
  cluster.ConnectAll();  // the fabric hashes otherwise than the topology file says
  OpenFourFlows(cluster);
  EXPECT_GE(cluster.CounterValue(kMismatches), 1);
  EXPECT_EQ(SpinesOfFourFlows(cluster), (std::set<int>{0, 1, 2, 3}));
}

// The topology file names the leaves' hash. The spine is failed for the controller, whose model
// assumes that the leaves stop using it. But they go on hashing onto it, so that no probe of a port
// that leads there is ever answered.
TEST(Controller, FlowsLeavePredictedPortsThatLeadIntoADeadSpine) {
  const fabric::EcmpSpec hash{.hash = "crc32", .seed = 7};
  Cluster cluster(kFourLeaves, {}, hash);
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
                cluster.state().flow_paths.PathOf(flow.subflows[0])->value())
          << "flow " << id << " of host " << i;
    }
  }
  EXPECT_GE(cluster.CounterValue("espalier_controller_predicted_ports_quarantined_total"), 1);
}

TEST(Controller, ServesAHostWithSeveralNics) {
  fabric::TopologySpec spec = *fabric::BuildLeafSpine(kFourLeaves);
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
  Cluster cluster(kFourLeaves);
  cluster.ConnectAll();
  OpenFourFlows(cluster);
  const auto gone = cluster.ChangeNode("leaf1", IntentAction::kFail, {.reason = "power"});
  ASSERT_TRUE(gone.has_value());
  EXPECT_EQ(gone->moves.size(), 4U);
  cluster.Settle();
  EXPECT_EQ(SpinesOfFourFlows(cluster), (std::set<int>{-1}));
  EXPECT_EQ(cluster.FlowOf(0, 1).status, FlowStatus::kUnroutable);
  EXPECT_EQ(cluster.state().flow_paths.assigner().MaxLoad(), (Load{0, 1}));
  ASSERT_TRUE(cluster.ChangeNode("leaf1", IntentAction::kRestore).has_value());
  cluster.Settle();
  EXPECT_EQ(SpinesOfFourFlows(cluster), (std::set<int>{0, 1, 2, 3}));
}

TEST(Controller, BelievesAnAgentAboutItsOwnNic) {
  Cluster cluster(kFourLeaves);
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
