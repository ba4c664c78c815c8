// Tests on a whole controller what taking over another topology would do.
#include "controller/operations/topology_effects.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>

#include "tests/controller/four_flows.h"

namespace espalier::controller {
namespace {

using fabric::TopologySpec;

class Effects : public testing::Test {
 protected:
  Effects() {
    cluster_.ConnectAll();
    OpenFourFlows(cluster_);
    cluster_.Advance(std::chrono::seconds(1));
  }
  TopologyEffects Of(const std::function<void(TopologySpec&)>& change) {
    TopologySpec spec = cluster_.state().topology.Spec();
    change(spec);
    const auto built = fabric::Topology::Build(std::move(spec));
    EXPECT_TRUE(built.has_value());
    return ComputeEffects(cluster_.state(), *built);
  }
  // Removes a node and its links; ids of later nodes change.
  static void RemoveNode(TopologySpec& spec, const std::string& id) {
    const auto at = std::ranges::find(spec.nodes, id, &fabric::Node::id) - spec.nodes.begin();
    spec.nodes.erase(spec.nodes.begin() + at);
    const fabric::NodeId removed(static_cast<std::int32_t>(at));
    std::erase_if(spec.links,
                  [&](const fabric::Link& link) { return link.a == removed || link.b == removed; });
    const auto renumber = [&](fabric::NodeId& node) {
      if (node > removed) node = fabric::NodeId(node.value() - 1);
    };
    for (fabric::Link& link : spec.links) {
      renumber(link.a);
      renumber(link.b);
    }
  }

  Cluster cluster_{kFourLeaves};
};

TEST_F(Effects, OfTheSameTopologyAreRefusedAsNothing) {
  const TopologyEffects effects = Of([](TopologySpec& spec) { spec.version = 7; });
  EXPECT_TRUE(effects.changes.empty());
  EXPECT_EQ(effects.flows_kept, 4);
  EXPECT_EQ(CheckEffects(effects, true).error().code, ErrorCode::kAlreadyExists);
}

TEST_F(Effects, OfRatesAndNewHostsLeaveFlowsAlone) {
  const TopologyEffects effects = Of([](TopologySpec& spec) {
    spec.links.back().rate.value *= 4;
    fabric::Node host;
    host.id = "h99";
    host.addresses = {*IpAddress::Parse("10.99.0.1")};
    spec.nodes.push_back(host);
    fabric::Link link = spec.links.front();
    link.id = "h99--leaf0";
    link.a = fabric::NodeId(static_cast<std::int32_t>(spec.nodes.size()) - 1);
    link.a_address = {};
    link.b_address = {};
    spec.links.push_back(link);
  });
  EXPECT_EQ(effects.changes.size(), 3U);
  EXPECT_EQ(effects.flows_kept, 4);
  EXPECT_EQ(effects.flows_moved, 0);
  EXPECT_TRUE(CheckEffects(effects, false));
}

TEST_F(Effects, OfASpineThatProbesSeeAreRefusedUntilItIsDrained) {
  ASSERT_EQ(SpinesOfFourFlows(cluster_).size(), 4U);
  const auto without_spine = [](TopologySpec& spec) { RemoveNode(spec, "spine0"); };
  const TopologyEffects in_use = Of(without_spine);
  EXPECT_FALSE(in_use.contradictions.empty());
  EXPECT_EQ(in_use.flows_moved, 1);
  EXPECT_EQ(in_use.flows_kept, 3);
  EXPECT_EQ(CheckEffects(in_use, true).error().code, ErrorCode::kFailedPrecondition);
  ASSERT_TRUE(cluster_.ChangeNode("spine0", IntentAction::kDrain));
  ASSERT_TRUE(cluster_.ChangeLink("leaf0--spine1", IntentAction::kDrain));
  cluster_.Advance(std::chrono::seconds(2));
  const TopologyEffects drained = Of(without_spine);
  EXPECT_TRUE(drained.contradictions.empty()) << drained.contradictions.front();
  EXPECT_EQ(drained.flows_kept, 4);
  EXPECT_TRUE(CheckEffects(drained, false));
  EXPECT_EQ(drained.dropped, std::vector<std::string>{"drained node spine0"});
  EXPECT_EQ(drained.intents.drained_links.size(), 1U) << "its link remains";
}

TEST_F(Effects, OfReCablingAreRefusedWhereProbesSeeTheLink) {
  const TopologyEffects effects = Of([](TopologySpec& spec) {
    const auto at = [&](const char* id) {
      return std::ranges::find(spec.links, std::string(id), &fabric::Link::id);
    };
    std::swap(at("leaf0--spine0")->b, at("leaf0--spine1")->b);
  });
  EXPECT_EQ(std::ranges::count(effects.changes, fabric::TopologyChange::Kind::kRecabled,
                               &fabric::TopologyChange::kind),
            2);
  EXPECT_EQ(effects.contradictions.size(), 2U);
}

TEST_F(Effects, OfAHostWithOpenFlowsAreRefusedWithoutForce) {
  const TopologyEffects effects = Of([](TopologySpec& spec) { RemoveNode(spec, "h0"); });
  EXPECT_EQ(effects.hosts_lost, std::vector<std::string>{"h0 (1 flow)"});
  EXPECT_EQ(effects.flows_lost, 1);
  const auto refused = CheckEffects(effects, false);
  EXPECT_EQ(refused.error().code, ErrorCode::kFailedPrecondition);
  EXPECT_NE(refused.error().message.find("h0 (1 flow)"), std::string::npos);
  EXPECT_TRUE(CheckEffects(effects, true));
}

// Two operators apply topologies at once: the second one is checked against what the first has
// left.
TEST_F(Effects, AreCheckedAgainWhenTheActionIsCarriedOut) {
  TopologySpec spec = cluster_.state().topology.Spec();
  RemoveNode(spec, "spine0");
  const fabric::Topology after = *fabric::Topology::Build(spec);
  std::vector<std::string> answers;
  const auto note = [&](const Result<ActionOutcome>& outcome) {
    answers.push_back(outcome ? "done" : std::string(ErrorCodeName(outcome.error().code)));
  };
  OperatorActions& actions = cluster_.controller().actions();
  actions.ApplyTopology(after, {.actor = "anna"}, note);
  actions.ChangeNode("spine0", IntentAction::kDrain, {.actor = "bert"}, note);
  actions.ApplyTopology(after, {.actor = "anna"}, note);
  cluster_.Settle();
  cluster_.Advance(std::chrono::seconds(1));
  EXPECT_EQ(answers, (std::vector<std::string>{"failed precondition", "done", "done"}));
  EXPECT_EQ(cluster_.disk.audit[0].result, AuditResult::kRefused);
  EXPECT_EQ(cluster_.disk.audit[2].action, "apply topology");
}

}  // namespace
}  // namespace espalier::controller
