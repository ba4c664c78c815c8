// Tests job plans on the present fabric.
#include "controller/forests/tree_job.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/fabric/builders.h"

namespace espalier::controller {
namespace {

using fabric::LinkState;
using fabric::PathIndex;

// Ranks on leaf 0 and leaf 1, and a forest of one edge over spine 1.
class JobPlans : public testing::Test {
 protected:
  JobPlans() {
    JobForest forest;
    forest.edges = {Edge(0, 1, 1)};
    forest_ = std::make_shared<const JobForest>(std::move(forest));
  }
  TreeEdge Edge(std::int32_t from, std::int32_t to, std::int32_t path) const {
    TreeEdge edge{.from = from, .to = to, .chunks = 5};
    edge.crossing = {
        .source_leaf = Leaf(from), .destination_leaf = Leaf(to), .path = PathIndex(path)};
    return edge;
  }
  fabric::NodeId Leaf(std::int32_t number) const {
    return *state_.topology.FindNode("leaf" + std::to_string(number));
  }
  void SetState(const char* link, LinkState state) {
    state_.topology.SetLinkState(*state_.topology.FindLink(link), state);
  }
  JobPlan Make() const {
    return MakeJobPlan(state_, job_, forest_, {7, 8}, DecisionOrigin::kManual);
  }

  State state_{*fabric::Topology::Build(
      *fabric::BuildLeafSpine({.spines = 2, .leaves = 2, .hosts_per_leaf = 1}))};
  TreeJob job_{.key = JobKey::Draw()};
  std::shared_ptr<const JobForest> forest_;
};

TEST_F(JobPlans, BeginWithoutPortsAndNotInForce) {
  const JobPlan plan = Make();
  EXPECT_EQ(plan.version, 0U);
  EXPECT_EQ(plan.ports, std::vector<std::uint16_t>{0});
  EXPECT_EQ(plan.origin, DecisionOrigin::kManual);
  EXPECT_EQ(plan.DestinationPort(plan.edge(0)), 8U);  // where rank 1 listens
  EXPECT_TRUE(plan.ack_edges.empty());
}

// Acknowledgements of RDMA have no connection of their own: they return over the same switches.
TEST_F(JobPlans, OverRdmaEachEdgeHasAReturnEdgeOverTheSameSwitches) {
  job_.spec.verbs = true;
  const JobPlan plan = Make();
  ASSERT_EQ(plan.ack_edges.size(), 1U);
  TreeEdge back = Edge(1, 0, 1);
  back.chunks = 0;
  EXPECT_EQ(plan.edge(1), back);
  EXPECT_EQ(plan.ports.size(), 2U);
  EXPECT_EQ(plan.DestinationPort(plan.edge(0)), wire::kRoceV2Port);
}

TEST_F(JobPlans, OverRdmaAnEdgeThatHasItsReverseNeedsNoOther) {
  job_.spec.verbs = true;
  JobForest forest;
  forest.edges = {Edge(0, 1, 1), Edge(1, 0, 0)};
  forest_ = std::make_shared<const JobForest>(std::move(forest));
  EXPECT_TRUE(Make().ack_edges.empty());
}

TEST_F(JobPlans, AreUsableAndAliveAsTheirLinksAre) {
  const JobPlan plan = Make();
  SetState("leaf0--spine0", LinkState::kDown);  // not its
  EXPECT_TRUE(IsUsable(state_, plan));
  SetState("leaf1--spine1", LinkState::kDrained);
  EXPECT_FALSE(IsUsable(state_, plan));
  EXPECT_TRUE(IsAlive(state_, plan));
  SetState("leaf1--spine1", LinkState::kDown);
  EXPECT_FALSE(IsAlive(state_, plan));
}

TEST_F(JobPlans, EdgesWithinALeafAreAlwaysUsable) {
  JobForest forest;
  forest.edges = {TreeEdge{.from = 0, .to = 1}};
  forest_ = std::make_shared<const JobForest>(std::move(forest));
  for (const char* const link : {"leaf0--spine0", "leaf0--spine1"}) {
    SetState(link, LinkState::kDown);
  }
  EXPECT_TRUE(IsUsable(state_, Make()));
}

TEST(JobStatuses, HaveNames) {
  EXPECT_EQ(JobStatusName(JobStatus::kPlanning), "PLANNING");
  EXPECT_EQ(JobStatusName(JobStatus::kLearning), "LEARNING");
  EXPECT_EQ(JobStatusName(JobStatus::kPushing), "PUSHING");
  EXPECT_EQ(JobStatusName(JobStatus::kReady), "READY");
  EXPECT_EQ(JobStatusName(JobStatus::kStuck), "STUCK");
}

}  // namespace
}  // namespace espalier::controller
