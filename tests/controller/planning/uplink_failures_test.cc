// Flows leave a dead uplink of a NIC, and a dead leaf, by precomputed backup paths.
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "tests/controller/cluster.h"

namespace espalier::controller {
namespace {

using namespace std::chrono_literals;

constexpr int kUplinkHosts = 6;
constexpr const char* kUplinkHits = "espalier_failure_plan_hits_total";
constexpr const char* kUplinkMisses = "espalier_failure_plan_misses_total";

// Two groups of three hosts and two leaves, below two spines: 8 paths between hosts of two groups.
class UplinkFailures : public testing::Test {
 protected:
  UplinkFailures()
      : cluster_(
            fabric::LeafSpineOptions{.spines = 2, .leaves = 4, .hosts_per_leaf = 3, .uplinks = 2},
            ControllerOptions{.plan_ahead = true}) {
    cluster_.hash = [](int from, int to, std::uint16_t port) { return (from + to + port) % 8; };
    cluster_.ConnectAll();
    for (int host = 0; host < kUplinkHosts; ++host) {
      cluster_.Open(host, {{.id = 1, .to = (host + 3) % kUplinkHosts}});
    }
    cluster_.Settle();
    cluster_.Advance(1s);
  }

  // The flows on a link, by their hosts.
  std::set<int> HostsOn(const std::string& link) {
    State& state = cluster_.state();
    std::set<int> hosts;
    for (const bool forward : {true, false}) {
      const fabric::DirectedLink direction{*state.topology.FindLink(link), forward};
      const auto index = static_cast<std::uint32_t>(direction.Index());
      for (const SubflowId subflow : state.flow_paths.assigner().SubflowsOn(index)) {
        const Flow& flow = state.flows.At(state.flow_paths.FlowOf(subflow));
        hosts.insert(std::stoi(state.agents.At(flow.agent).name.substr(1)));
      }
    }
    return hosts;
  }
  void ExpectUsablePaths() {
    for (int host = 0; host < kUplinkHosts; ++host) {
      const Flow& flow = cluster_.FlowOf(host, 1);
      EXPECT_EQ(flow.status, FlowStatus::kRouted) << host;
      const auto path = cluster_.state().flow_paths.PathOf(flow.subflows[0]);
      ASSERT_TRUE(path) << host;
      EXPECT_TRUE(fabric::IsUsable(cluster_.state().topology,
                                   cluster_.state().PathsOf(flow)[path->Index()]));
    }
  }

  Cluster cluster_;
};

TEST_F(UplinkFailures, MoveFlowsByPlans) {
  EXPECT_EQ(cluster_.state().flow_paths.assigner().MaxLoad(), (Load{1, 1}));
  const std::string uplink = HostsOn("h0--leaf0").contains(0) ? "h0--leaf0" : "h0--leaf1";
  const auto on_uplink = static_cast<std::int64_t>(HostsOn(uplink).size());
  ASSERT_GT(on_uplink, 0);
  ASSERT_TRUE(cluster_.ChangeLink(uplink, IntentAction::kFail).has_value());
  cluster_.Settle();
  EXPECT_EQ(cluster_.CounterValue(kUplinkHits), on_uplink);
  EXPECT_EQ(cluster_.CounterValue(kUplinkMisses), 0);
  ExpectUsablePaths();
  cluster_.Advance(1s);
  ASSERT_TRUE(cluster_.ChangeNode("leaf2", IntentAction::kFail).has_value());
  cluster_.Settle();
  EXPECT_GT(cluster_.CounterValue(kUplinkHits), on_uplink);
  EXPECT_EQ(cluster_.CounterValue(kUplinkMisses), 0);
  ExpectUsablePaths();
}

// The host's queue pairs choose the uplink, so that a port that a probe sees take a path says
// nothing about them.
TEST(UplinkByAffinity, IsNotSteered) {
  auto spec =
      *fabric::BuildLeafSpine({.spines = 2, .leaves = 4, .hosts_per_leaf = 1, .uplinks = 2});
  for (fabric::Node& node : spec.nodes) {
    if (node.id == "h0") node.uplink = fabric::UplinkChoice::kAffinity;
  }
  Cluster cluster(std::move(spec), {});
  cluster.hash = [](int, int, std::uint16_t port) { return port % 8; };
  cluster.ConnectAll();
  cluster.Open(0, {{.id = 1, .to = 1}});
  cluster.Open(1, {{.id = 1, .to = 0}});
  cluster.Settle();
  EXPECT_EQ(cluster.FlowOf(0, 1).status, FlowStatus::kUnroutable);
  EXPECT_EQ(cluster.FlowOf(1, 1).status, FlowStatus::kRouted) << "what arrives there is";
}

}  // namespace
}  // namespace espalier::controller
