// Tests the reservations of edges of forests.
#include "controller/forests/plan_reservations.h"

#include <gtest/gtest.h>

#include "tests/controller/forests/running_jobs.h"

namespace espalier::controller {
namespace {

class PlanReservationsTest : public RunningJobs {};

TEST_F(PlanReservationsTest, EdgesReserveTheirRate) {
  Start(Spec());
  EXPECT_EQ(ReservedEdges(), JobOf().active->reserved.size());
  EXPECT_EQ(cluster_.state().flows.size(), 0U);
  // While the job runs, all links are always in use: the load of one flow on each.
  for (std::size_t i = 0; i < cluster_.state().topology.links().size(); ++i) {
    const fabric::LinkId link(static_cast<std::int32_t>(i));
    if (!cluster_.state().topology.IsSwitchToSwitch(link)) continue;
    const auto load =
        cluster_.state().flow_paths.assigner().LoadOf(fabric::DirectedLink{link, true}.Index());
    EXPECT_NEAR(static_cast<double>(load) / static_cast<double>(kLoadUnit), 1, 0.01);
  }
  cluster_.state().edges.CheckInvariants();
  ASSERT_TRUE(cluster_.StopJob("train").has_value());
  EXPECT_EQ(ReservedEdges(), 0U);
  for (const std::int64_t load : cluster_.state().flow_paths.assigner().Loads()) EXPECT_EQ(load, 0);
}

TEST_F(PlanReservationsTest, AnEdgeBelongsToItsPlan) {
  Start(Spec());
  const JobPlan& plan = *JobOf().active;
  std::size_t next = 0;
  for (std::size_t i = 0; i < plan.forest->edges.size(); ++i) {
    const TreeEdge& edge = plan.forest->edges[i];
    if (!edge.crossing) continue;
    const EdgeName& name = plan.reserved.at(next++);
    const EdgeReservation& reserved = *cluster_.state().edges.Find(name);
    EXPECT_EQ(cluster_.state().agents.At(name.agent).name, "h" + std::to_string(edge.from));
    EXPECT_EQ(cluster_.state().flows.JobName(reserved.job), "train");
    EXPECT_EQ(reserved.key, cluster_.controller().jobs().KeyOf(plan, edge));
    EXPECT_EQ(reserved.source_port, plan.ports[i]);
    EXPECT_EQ(reserved.protocol, wire::kProtocolTcp);
    EXPECT_EQ(reserved.source_leaf, edge.crossing->source_leaf);
    EXPECT_EQ(reserved.destination_leaf, edge.crossing->destination_leaf);
    EXPECT_EQ(reserved.path, edge.crossing->path);
    EXPECT_EQ(reserved.origin, DecisionOrigin::kReactive);
  }
  EXPECT_EQ(next, plan.reserved.size());
}

}  // namespace
}  // namespace espalier::controller
