// How well flows are spread.
#include "controller/placement/loads/load_summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/controller/placement/placed_flows.h"

namespace espalier::controller {
namespace {

using testing::SizeIs;
using testing::UnorderedElementsAre;

class LoadSummaryTest : public Split {};

TEST_F(LoadSummaryTest, OverOnePathALinkCarriesTwoOfThree) {
  Start(1);
  EXPECT_EQ(cluster_.state().flow_paths.assigner().MaxLoad(), (Load{2, 1}));
}

TEST_F(LoadSummaryTest, OverTwoPathsEachLinkCarriesOneAndAHalf) {
  Start(2);
  EXPECT_EQ(cluster_.state().flow_paths.assigner().MaxLoad(), (Load{3, 2}));
  for (int host = 0; host < 3; ++host) {
    EXPECT_THAT(Spines(host), UnorderedElementsAre(0, 1));
    const wire::PathSet& set = cluster_.host(host).sets.at(1);
    EXPECT_EQ(set.paths[0].weight, set.paths[1].weight);
    EXPECT_NE(set.paths[0].source_port, set.paths[1].source_port);
  }
  EXPECT_TRUE(Summarize(cluster_.state()).IsOptimal());
  EXPECT_THAT(cluster_.Recompute()->moves, SizeIs(0));
}

TEST_F(LoadSummaryTest, DescribesFlowsThatCrossTheFabricByLeavesAndNics) {
  Start(2);
  cluster_.Open(0, {{.id = 9, .to = 1}});  // of one leaf
  cluster_.Settle();
  const State& state = cluster_.state();
  const Elephants elephants = DescribeElephants(state, state.flows.All());
  ASSERT_EQ(elephants.slots.size(), 3U);
  for (const Commodity& flow : elephants.commodities) {
    EXPECT_EQ(flow.source, 0U);
    EXPECT_EQ(flow.destination, 1U);
    EXPECT_EQ(flow.subflows, 2U);
    const auto from = fabric::DirectedLink::FromIndex(flow.source_link);
    EXPECT_EQ(state.topology.To(from), *state.topology.FindNode("leaf0"));
    const auto to = fabric::DirectedLink::FromIndex(flow.destination_link);
    EXPECT_EQ(state.topology.From(to), *state.topology.FindNode("leaf1"));
  }
  const Assignment paths = CurrentPaths(state, elephants);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(paths.PathsOf(i).size(), 2U);
  EXPECT_EQ(paths.max_load, state.flow_paths.assigner().MaxLoad());
}

// What a tree edge reserves counts in the maximum, in the bound and in recomputations.
TEST_F(LoadSummaryTest, CountsTheReservationsOfTrees) {
  Start(1);
  State& state = cluster_.state();
  const EdgeName edge =
      state.edges.Open(AgentId(0), {.job = cluster_.FlowOf(0, 1).job,
                                    .source_leaf = *state.topology.FindNode("leaf0"),
                                    .destination_leaf = *state.topology.FindNode("leaf1"),
                                    .path = fabric::PathIndex(0),
                                    .load = kLoadUnit * 3});
  const LoadSummary loads = Summarize(state);
  EXPECT_EQ(loads.max_load, state.flow_paths.assigner().MaxLoad());
  EXPECT_EQ(loads.lower_bound, (Load{3, 1}));
  const auto recomputed = cluster_.Recompute();
  ASSERT_TRUE(recomputed.has_value());
  EXPECT_EQ(recomputed->after.max_load, (Load{3, 1}));
  EXPECT_TRUE(recomputed->after.IsOptimal());
  EXPECT_EQ(state.flow_paths.assigner().MaxLoad(), (Load{3, 1}));
  EXPECT_EQ(FindTheorem(state), Proof::kNone);  // the rest of the links is no longer equal
  state.edges.Close(edge);
  EXPECT_EQ(FindTheorem(state), Proof::kTwoTiers);
}

TEST_F(LoadSummaryTest, FindsTheTheoremThatTheFlowsAllow) {
  Start(1);
  EXPECT_EQ(FindTheorem(cluster_.state()), Proof::kTwoTiers);
  cluster_.Open(0, {{.id = 2, .to = 4, .max_paths = 2}});  // of two subflows
  cluster_.Settle();
  EXPECT_EQ(FindTheorem(cluster_.state()), Proof::kNone);
  cluster_.End(0, 2);
  EXPECT_EQ(FindTheorem(cluster_.state()), Proof::kTwoTiers);
  cluster_.Open(0, {{.id = 3, .to = 4, .movable = false}});
  cluster_.Settle();
  EXPECT_EQ(FindTheorem(cluster_.state()), Proof::kNone);
}

}  // namespace
}  // namespace espalier::controller
