// Tests jobs whose ranks use several NICs each.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/fabric/builders.h"
#include "controller/forests/plan_delivery.h"
#include "controller/forests/tree_job.h"

namespace espalier::controller {
namespace {

using fabric::LinkState;
using fabric::NodeId;
using testing::ElementsAre;

constexpr int kHosts = 4;

// Four hosts, each with one GPU at two NICs, which are the bottleneck.
fabric::Topology MakeTopology() {
  return *fabric::Topology::Build(
      *fabric::BuildLeafSpine({.spines = 2,
                               .leaves = 4,
                               .hosts_per_leaf = 2,
                               .host_rate = BitsPerSecond{100'000'000'000},
                               .fabric_rate = BitsPerSecond{400'000'000'000},
                               .rails = 2,
                               .gpus = 1}));
}

class RankNics : public testing::Test {
 protected:
  RankNics() {
    job_.spec.name = "train";
    for (int host = 0; host < kHosts; ++host) {
      const std::string name = "h" + std::to_string(host);
      job_.ranks.push_back(*state_.topology.FindNode(name + "/gpu0"));
      AgentOf(host).features = {"collective", "rank_nics", "all_rank_nics"};
    }
  }
  Agent& AgentOf(int host) {
    return state_.agents.At(state_.agents.Intern("h" + std::to_string(host)));
  }
  // The address of a NIC of a host.
  IpAddress Address(std::int32_t rank, int nic) const {
    const std::string name = "h" + std::to_string(rank) + "/nic" + std::to_string(nic);
    return state_.topology.node(*state_.topology.FindNode(name)).addresses.front();
  }
  bool MustUseOne() const { return MustUseOneNic(state_, job_.spec, job_.ranks); }
  // Puts a plan in force, whose edges that cross the fabric have ports.
  void Plan() {
    auto forest =
        BuildJobForest({.topology = std::make_shared<const fabric::Topology>(state_.topology),
                        .available = {},
                        .name = "train",
                        .collective = forest::Collective::kAllreduce,
                        .ranks = job_.ranks,
                        .one_nic = MustUseOne()});
    ASSERT_TRUE(forest.has_value()) << forest.error().message;
    job_.active = MakeJobPlan(state_, job_, std::make_shared<const JobForest>(std::move(*forest)),
                              std::vector<std::uint16_t>(kHosts, 4'791), DecisionOrigin::kManual);
    std::uint16_t port = 50'000;
    for (std::size_t i = 0; i < job_.active->ports.size(); ++i) {
      if (job_.active->edge(i).crossing) job_.active->ports[i] = port++;
    }
    DeliverPlans(state_, job_);
  }
  const wire::RankPlan& PlanOf(std::int32_t rank) {
    return *AgentOf(rank).plans.at({"train", static_cast<std::uint32_t>(rank)}).plan;
  }
  // The addresses at both ends of an edge, as the sender's plan says.
  std::pair<IpAddress, IpAddress> EndsOf(const TreeEdge& edge) {
    const wire::RankPlan& plan = PlanOf(edge.from);
    std::pair<IpAddress, IpAddress> ends;
    for (const wire::PeerPorts& peer : plan.peers) {
      if (peer.rank != static_cast<std::uint32_t>(edge.to)) continue;
      ends = {plan.address, peer.address};
      for (const wire::ConnectionNics& nics : peer.connections) {
        if (nics.channel == static_cast<std::uint32_t>(edge.channel)) {
          ends = {nics.source, nics.destination};
        }
      }
    }
    return ends;
  }

  State state_{MakeTopology()};
  TreeJob job_{.key = JobKey::Draw()};
};

TEST_F(RankNics, EveryConnectionHasTheNicsOfItsEdge) {
  Plan();
  for (const TreeEdge& edge : job_.active->forest->edges) {
    const auto [source, destination] = EndsOf(edge);
    EXPECT_EQ(source, state_.topology.node(edge.source_nic).addresses.front());
    EXPECT_EQ(destination, state_.topology.node(edge.destination_nic).addresses.front());
    const wire::RankPlan& other = PlanOf(edge.to);
    EXPECT_TRUE(destination == other.address ||
                std::ranges::count(other.listen_addresses, destination) == 1)
        << "rank " << edge.to << " listens there";
  }
  for (std::int32_t rank = 0; rank < kHosts; ++rank) {
    EXPECT_EQ(PlanOf(rank).address, Address(rank, 0));
    EXPECT_THAT(PlanOf(rank).listen_addresses, ElementsAre(Address(rank, 1)));
  }
}

// A queue pair carries both directions, so both of its ends must know its NICs, also that which
// only acknowledges.
TEST_F(RankNics, EveryQueuePairHasTheSameNicsAtBothEnds) {
  job_.spec.verbs = true;
  Plan();
  std::set<NodeId> used;
  for (TreeEdge edge : job_.active->forest->edges) {
    const auto [source, destination] = EndsOf(edge);
    EXPECT_EQ(source, state_.topology.node(edge.source_nic).addresses.front());
    EXPECT_EQ(destination, state_.topology.node(edge.destination_nic).addresses.front());
    used.insert(edge.source_nic);
    std::swap(edge.from, edge.to);
    EXPECT_EQ(EndsOf(edge), std::pair(destination, source));
  }
  EXPECT_EQ(used.size(), std::size_t{2 * kHosts});
  for (std::int32_t rank = 0; rank < kHosts; ++rank) {
    EXPECT_TRUE(PlanOf(rank).listen_addresses.empty()) << "all queue pairs are set up at one";
  }
}

TEST_F(RankNics, AreOneIfAnAgentSupportsNoMore) {
  EXPECT_FALSE(MustUseOne());
  for (bool* const transport : {&job_.spec.verbs, &job_.spec.offload}) {
    AgentOf(1).features = {"collective", "rank_nics", "all_rank_nics"};
    *transport = true;
    EXPECT_FALSE(MustUseOne());
    AgentOf(1).features = {"collective", "rank_nics"};
    EXPECT_TRUE(MustUseOne());
    *transport = false;
    EXPECT_FALSE(MustUseOne());
  }
  AgentOf(2).features = {"collective"};
  EXPECT_TRUE(MustUseOne());
  Plan();
  for (std::int32_t rank = 0; rank < kHosts; ++rank) {
    EXPECT_TRUE(PlanOf(rank).listen_addresses.empty());
    for (const wire::PeerPorts& peer : PlanOf(rank).peers) {
      for (const wire::ConnectionNics& nics : peer.connections) {
        EXPECT_EQ(nics.source, PlanOf(rank).address);
        EXPECT_EQ(nics.destination, peer.address);
      }
    }
  }
}

TEST_F(RankNics, APlanIsAsGoodAsTheLinksOfItsNics) {
  Plan();
  const auto set = [&](const char* link, LinkState state) {
    state_.topology.SetLinkState(*state_.topology.FindLink(link), state);
  };
  EXPECT_TRUE(IsUsable(state_, *job_.active));
  set("h1/nic1--leaf1", LinkState::kDrained);
  EXPECT_FALSE(IsUsable(state_, *job_.active));
  EXPECT_TRUE(IsAlive(state_, *job_.active));
  set("h1/nic1--leaf1", LinkState::kDown);
  EXPECT_FALSE(IsAlive(state_, *job_.active));
  // The next plan leaves it out.
  Plan();
  EXPECT_TRUE(IsUsable(state_, *job_.active));
  EXPECT_TRUE(PlanOf(1).listen_addresses.empty());
  EXPECT_EQ(PlanOf(1).address, Address(1, 0));
  // The plan after its return has it again.
  set("h1/nic1--leaf1", LinkState::kUp);
  EXPECT_TRUE(IsUsable(state_, *job_.active));
  Plan();
  EXPECT_THAT(PlanOf(1).listen_addresses, ElementsAre(Address(1, 1)));
}

}  // namespace
}  // namespace espalier::controller
