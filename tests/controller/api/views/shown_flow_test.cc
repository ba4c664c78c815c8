// Flows and edges of forests as operators see them.
#include "controller/api/views/shown_flow.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "common/fabric/builders.h"

namespace espalier::controller {
namespace {

constexpr std::uint16_t kPort = 0xC123;

class Shown : public testing::Test {
 protected:
  fabric::NodeId Node(const std::string& name) const { return *state_.topology.FindNode(name); }
  IpAddress Address(const std::string& host) const {
    return state_.topology.node(Node(host)).addresses.front();
  }

  State state_{*fabric::Topology::Build(
      *fabric::BuildLeafSpine({.spines = 2, .leaves = 2, .hosts_per_leaf = 1}))};
  AgentId h0_ = state_.agents.Intern("h0");
};

TEST_F(Shown, AFlowHasItsReportedAndDecidedFields) {
  Flow flow;
  flow.agent = h0_;
  flow.local = wire::LocalFlowId(7);
  flow.source_leaf = Node("leaf0");
  flow.destination_leaf = Node("leaf1");
  flow.max_rate_bps = 9;
  flow.status = FlowStatus::kLearning;
  flow.subflows.resize(3);
  flow.subflows[0].port_path = fabric::PathIndex(1);
  flow.subflows[0].port = flow.subflows[1].port = kPort;
  const FlowSlot slot = state_.flows.Open(std::move(flow));
  for (std::uint32_t i = 0; i < 2; ++i)
    state_.decisions.Place(slot, i, 1);  // the third has no path
  state_.flows.PushOf(slot).generation = 1;
  ShownFlow shown = Show(state_, slot);
  EXPECT_EQ(shown.agent, h0_);
  EXPECT_EQ(shown.local, wire::LocalFlowId(7));
  EXPECT_EQ(shown.status, FlowStatus::kLearning);
  EXPECT_EQ(shown.max_rate_bps, 9U);
  EXPECT_EQ(shown.first_port(), kPort);
  ASSERT_EQ(shown.subflows.size(), 3U);
  EXPECT_FALSE(shown.subflows[0].is_learning);
  EXPECT_TRUE(shown.subflows[1].is_learning);  // its port still leads elsewhere
  EXPECT_EQ(shown.subflows[1].path, fabric::PathIndex(1));
  EXPECT_FALSE(shown.subflows[2].is_learning);
  EXPECT_EQ(shown.subflows[2].path, std::nullopt);
  EXPECT_FALSE(shown.is_acknowledged);
  state_.agents.At(h0_).acked_generation = 1;
  EXPECT_TRUE(Show(state_, slot).is_acknowledged);
}

TEST_F(Shown, AnEdgeIsARoutedFlowWithoutReports) {
  const EdgeName name =
      state_.edges.Open(h0_, {.key = {.source = Node("h0"), .destination = Node("h1")},
                              .source_port = kPort,
                              .protocol = wire::kProtocolTcp,
                              .source_leaf = Node("leaf0"),
                              .destination_leaf = Node("leaf1"),
                              .path = fabric::PathIndex(1),
                              .load = 1,
                              .origin = DecisionOrigin::kFailure});
  const ShownFlow shown = Show(state_, name, *state_.edges.Find(name));
  EXPECT_EQ(shown.agent, h0_);
  EXPECT_EQ(shown.local, name.number);
  EXPECT_EQ(shown.source_address, Address("h0"));
  EXPECT_EQ(shown.destination_address, Address("h1"));
  EXPECT_EQ(shown.protocol, wire::kProtocolTcp);
  EXPECT_EQ(shown.own_port, kPort);
  EXPECT_EQ(shown.first_port(), kPort);
  EXPECT_EQ(shown.status, FlowStatus::kRouted);
  EXPECT_EQ(shown.reason, wire::PathReason::kAssigned);
  EXPECT_EQ(shown.origin, DecisionOrigin::kFailure);
  EXPECT_TRUE(shown.is_acknowledged);
  EXPECT_EQ(shown.max_rate_bps, 0U);
  EXPECT_FALSE(shown.activity.IsBusy());
  EXPECT_EQ(shown.activity.state, wire::FlowState::kActive);
  ASSERT_EQ(shown.subflows.size(), 1U);
  EXPECT_EQ(shown.subflows[0].path, fabric::PathIndex(1));
  EXPECT_FALSE(shown.subflows[0].is_learning);
}

// A flow from h0 to h1, which waits.
class Waiting : public Shown {
 protected:
  Waiting() {
    flow_.agent = h0_;
    flow_.source_address = Address("h0");
    flow_.destination_address = Address("h1");
    flow_.key = {.source = Node("h0"), .destination = Node("h1")};
    flow_.source_leaf = Node("leaf0");
    flow_.destination_leaf = Node("leaf1");
    flow_.subflows = {{.path = fabric::PathIndex(0), .is_learning = true}};
    state_.agents.Connect(h0_, PeerId(1));
  }
  std::string CauseAs(FlowStatus status) {
    flow_.status = status;
    return ExplainWait(state_, flow_).cause;
  }

  ShownFlow flow_;
};

TEST_F(Waiting, SaysWhyNoPortIsKnown) {
  EXPECT_EQ(CauseAs(FlowStatus::kLearning), "probes have not found a source port for its path yet");
  state_.path_map.NoteSilence(flow_.key, kPort);
  EXPECT_EQ(CauseAs(FlowStatus::kLearning), "no switch on the way has answered a probe yet");
  state_.path_map.Observe(flow_.key, kPort + 1, fabric::PathIndex(1));
  EXPECT_EQ(CauseAs(FlowStatus::kLearning), "probes have not found a source port for its path yet");
  state_.path_map.PredictNone(flow_.key, {fabric::PathIndex(0)});
  EXPECT_EQ(CauseAs(FlowStatus::kLearning), "no source port takes its path over spine0");
}

TEST_F(Waiting, SaysWhyThereIsNoRoute) {
  EXPECT_EQ(CauseAs(FlowStatus::kUnroutable), "no path from leaf0 to leaf1 is usable");
  flow_.reach = Reach::kUnknownEnd;
  EXPECT_EQ(CauseAs(FlowStatus::kUnroutable),
            "its two NICs have as many flows already as can be steered");
  flow_.agent = state_.agents.Intern("other");
  EXPECT_EQ(CauseAs(FlowStatus::kUnroutable),
            "the agent other reports it, but its source is a NIC of h0");
  flow_.destination_address = *IpAddress::Parse("192.0.2.1");
  EXPECT_EQ(CauseAs(FlowStatus::kUnroutable),
            "the topology has no NIC with the address 192.0.2.1 at a switch");
}

TEST_F(Waiting, EachStateThatCanLastHasACauseAndARemedy) {
  for (const FlowStatus status : {FlowStatus::kNew, FlowStatus::kAdopting, FlowStatus::kLearning,
                                  FlowStatus::kUnsteered, FlowStatus::kUnroutable}) {
    EXPECT_NE(CauseAs(status), "");
    EXPECT_NE(ExplainWait(state_, flow_).remedy, "");
  }
  EXPECT_EQ(CauseAs(FlowStatus::kRouted), "");
}

}  // namespace
}  // namespace espalier::controller
