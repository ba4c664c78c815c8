// Hosts whose NIC has one address and two uplinks, under the real controller and real agents.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/scenarios/sim_cluster.h"

namespace espalier::scenarios {
namespace {

using namespace std::chrono_literals;
using controller::IntentAction;
using fabric::LinkState;
using FlowRef = SimCluster::FlowRef;

constexpr std::uint64_t kEndless = 1'000'000'000'000'000;

// Two groups of four hosts and two leaves. Linear hashes of three tiers would agree with each other
// (polarisation).
ClusterOptions Pairs(int planes, bool knows_hash) {
  return {.shape = {.spines = 4, .leaves = 4, .hosts_per_leaf = 4, .planes = planes, .uplinks = 2},
          .hash = "linux",
          .controller_knows_hash = knows_hash};
}

class Uplinks : public testing::TestWithParam<std::pair<int, bool>> {
 protected:
  Uplinks() : cluster_(Pairs(GetParam().first, GetParam().second)) { cluster_.StartAll(); }

  int FlowsOn(const std::string& link) {
    const auto id = *cluster_.fabric().topology().FindLink(link);
    const std::vector<int> flows = cluster_.fabric().LinkFlows();
    return flows[fabric::DirectedLink{id, true}.Index()] +
           flows[fabric::DirectedLink{id, false}.Index()];
  }
  bool AnyStandsStill(const std::vector<FlowRef>& flows) {
    return std::ranges::any_of(flows,
                               [&](const FlowRef& flow) { return cluster_.StandsStill(flow); });
  }

  SimCluster cluster_;
};

// Each host sends one flow of two connections to a host of the other group.
TEST_P(Uplinks, CarryAPermutationOverBothOfEveryHost) {
  const auto flows = cluster_.StartPermutation(1, kEndless, 2);
  ASSERT_TRUE(cluster_.RunUntil([&] { return cluster_.AllRouted(flows); }, 60s));
  // In one plane, eight links join the leaves of a group and the spines; in two, four do.
  EXPECT_EQ(cluster_.MaxLinkFlows(), GetParam().first);
  for (int host = 0; host < 8; ++host) {
    for (int uplink = 0; uplink < 2; ++uplink) {
      const std::string link =
          "h" + std::to_string(host) + "--leaf" + std::to_string(host / 4 * 2 + uplink);
      EXPECT_EQ(FlowsOn(link), 2) << link << ": one that leaves and one that arrives";
    }
  }
}

TEST_P(Uplinks, LeaveOneThatIsDead) {
  const auto flows = cluster_.StartPermutation(1, kEndless);
  ASSERT_TRUE(cluster_.RunUntil([&] { return cluster_.AllRouted(flows); }, 60s));
  EXPECT_EQ(cluster_.MaxLinkFlows(), 1);
  cluster_.fabric().SetLink(*cluster_.fabric().topology().FindLink("h0--leaf0"), LinkState::kDown);
  ASSERT_TRUE(cluster_.ChangeLink("h0--leaf0", IntentAction::kFail, {.reason = "test"}));
  ASSERT_TRUE(
      cluster_.RunUntil([&] { return cluster_.AllRouted(flows) && !AnyStandsStill(flows); }, 60s));
  cluster_.world().RunFor(5s);
  EXPECT_FALSE(AnyStandsStill(flows));
  EXPECT_EQ(FlowsOn("h0--leaf0"), 0);
  EXPECT_EQ(FlowsOn("h0--leaf1"), 2);
}

TEST_P(Uplinks, LeaveADeadLeaf) {
  const auto flows = cluster_.StartPermutation(1, kEndless);
  ASSERT_TRUE(cluster_.RunUntil([&] { return cluster_.AllRouted(flows); }, 60s));
  const fabric::Topology& topology = cluster_.fabric().topology();
  const fabric::NodeId leaf = *topology.FindNode("leaf0");
  for (const fabric::DirectedLink link : topology.Outgoing(leaf)) {
    const std::string id = topology.link(link.link).id;
    cluster_.fabric().SetLink(link.link, LinkState::kDown);
    ASSERT_TRUE(cluster_.ChangeLink(id, IntentAction::kFail, {.reason = "test"}));
  }
  ASSERT_TRUE(
      cluster_.RunUntil([&] { return cluster_.AllRouted(flows) && !AnyStandsStill(flows); }, 60s));
  cluster_.world().RunFor(5s);
  EXPECT_FALSE(AnyStandsStill(flows));
  for (int host = 0; host < 4; ++host) {
    EXPECT_EQ(FlowsOn("h" + std::to_string(host) + "--leaf1"), 2);
  }
}

INSTANTIATE_TEST_SUITE_P(Planes, Uplinks,
                         testing::Values(std::pair(1, true), std::pair(1, false),
                                         std::pair(2, true), std::pair(2, false)));

}  // namespace
}  // namespace espalier::scenarios
