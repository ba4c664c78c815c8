// Edges of forests among the other flows.
#include "controller/forests/edge_flows.h"

#include <gtest/gtest.h>

#include "tests/controller/forests/running_jobs.h"

namespace espalier::controller {
namespace {

class EdgeFlowsTest : public RunningJobs {};

TEST_F(EdgeFlowsTest, EntersTheEdgesIntoTheFlowTablePinnedAndWeighted) {
  Start(Spec());
  EXPECT_EQ(FlowsOfTrees(), JobOf().in_force->flows.size());
  // All links are in use all of the time while the job runs: the load of one flow on each.
  for (std::size_t i = 0; i < cluster_.state().topology.links().size(); ++i) {
    const fabric::LinkId link(static_cast<std::int32_t>(i));
    if (!cluster_.state().topology.IsSwitchToSwitch(link)) continue;
    const auto load =
        cluster_.state().flow_paths.live().LoadOf(fabric::DirectedLink{link, true}.Index());
    EXPECT_NEAR(static_cast<double>(load) / static_cast<double>(kLoadUnit), 1, 0.01);
  }
  ASSERT_TRUE(cluster_.StopJob("train").has_value());
  EXPECT_EQ(FlowsOfTrees(), 0U);
  for (const std::int64_t load : cluster_.state().flow_paths.live().Loads()) EXPECT_EQ(load, 0);
}

}  // namespace
}  // namespace espalier::controller
