// Tests the capacity that other flows leave for a job.
#include "controller/forests/residual_capacity.h"

#include <gtest/gtest.h>

#include <vector>

#include "common/fabric/builders.h"
#include "tests/controller/forests/running_jobs.h"

namespace espalier::controller {
namespace {

class ResidualCapacityTest : public RunningJobs {};

TEST_F(ResidualCapacityTest, FlowsAndTreesAvoidEachOther) {
  cluster_.Open(0, {{.id = 1, .to = 4}});
  cluster_.Settle();
  const int spine = cluster_.AppliedSpine(0, 1, 4);
  JobSpec spec = Spec("pair", 0);
  spec.ranks = {"h1", "h5"};  // of the same leaves as the flow
  Start(spec);
  const auto on_spine = [&](int wanted) {
    std::int64_t chunks = 0;
    for (const TreeEdge& edge : JobOf("pair").active->forest->edges) {
      const bool same_way = edge.from == 0;
      if (same_way && edge.crossing->path.value() == wanted) chunks += edge.chunks;
    }
    return chunks;
  };
  for (int other = 0; other < 4; ++other) {
    EXPECT_GE(on_spine(other), on_spine(spine)) << other;
  }
  // A new flow takes the path with the lowest load of trees and flows.
  cluster_.Open(1, {{.id = 2, .to = 5}});
  cluster_.Settle();
  EXPECT_NE(cluster_.AppliedSpine(1, 2, 5), spine);
}

TEST(ResidualCapacity, IsAsIfTheJobWereOneMoreFlowOnEachLink) {
  Metrics metrics;
  State state(
      *fabric::Topology::Build(*fabric::BuildLeafSpine({.spines = 2,
                                                        .leaves = 2,
                                                        .hosts_per_leaf = 1,
                                                        .host_rate = BitsPerSecond{1'200},
                                                        .fabric_rate = BitsPerSecond{1'200}})));
  PathLearner learner(state.topology, state.paths, state.path_map, {}, metrics);
  FailurePlans plans(state, learner, metrics);
  EXPECT_TRUE(ResidualCapacity(state, plans, nullptr).empty());  // all of every link

  Flow flow;
  flow.key = {.source = *state.topology.FindNode("h0"),
              .destination = *state.topology.FindNode("h1")};
  flow.source_leaf = *state.topology.FindNode("leaf0");
  flow.destination_leaf = *state.topology.FindNode("leaf1");
  flow.subflows.resize(1);
  const FlowSlot slot = state.flows.Open(std::move(flow));
  state.decisions.Place(slot, 0, 1);
  const auto left = ResidualCapacity(state, plans, nullptr);
  const auto on = [&](const char* link, bool forward) {
    return left[fabric::DirectedLink{*state.topology.FindLink(link), forward}.Index()].value;
  };
  EXPECT_EQ(on("leaf0--spine1", true), 600);
  EXPECT_EQ(on("leaf1--spine1", false), 600);
  EXPECT_EQ(on("leaf1--spine1", true), 1'200);
  EXPECT_EQ(on("leaf0--spine0", true), 1'200);
  EXPECT_EQ(on("h0--leaf0", true), 600);
  EXPECT_EQ(on("h1--leaf1", false), 600);
  EXPECT_EQ(on("h1--leaf1", true), 1'200);
}

TEST(ResidualCapacity, DigestsTellThemApart) {
  const std::vector<BitsPerSecond> one = {BitsPerSecond{1}, BitsPerSecond{2}};
  EXPECT_EQ(DigestOf(one), DigestOf(one));
  EXPECT_NE(DigestOf(one), DigestOf({BitsPerSecond{2}, BitsPerSecond{1}}));
  EXPECT_NE(DigestOf(one), DigestOf({}));
}

}  // namespace
}  // namespace espalier::controller
