#include "controller/routing/occupancy/subflow_table.h"

#include <gtest/gtest.h>

#include "tests/controller/routing/test_fabric.h"

namespace espalier::controller {
namespace {

TEST(SubflowTable, ReusesIdsAndForgetsTheirSubflows) {
  auto fabric = Fabric::LeafSpine(2, 3);
  SubflowTable subflows(fabric->view);
  const SubflowId first = subflows.Add(0, 1, kLoadUnit, true);
  const SubflowId second = subflows.Add(1, 2, kLoadUnit, false);
  EXPECT_NE(first, second);
  subflows[first].in_progress = true;
  subflows[first].walk = 7;
  subflows.Remove(first);
  const SubflowId third = subflows.Add(2, 0, kLoadUnit / 4, false);
  EXPECT_EQ(third, first);
  EXPECT_EQ(subflows[third].source, 2U);
  EXPECT_EQ(subflows[third].destination, 0U);
  EXPECT_EQ(subflows[third].share, kLoadUnit / 4);
  EXPECT_EQ(subflows[third].route, kNoPath);
  EXPECT_EQ(subflows[third].walk, 0U);
  EXPECT_FALSE(subflows[third].in_progress);
  EXPECT_FALSE(subflows[third].pinned);
}

TEST(SubflowTable, ChargesBytesInFlightOnlyForSubflowsInProgress) {
  auto fabric = Fabric::LeafSpine(2, 3);
  SubflowTable subflows(fabric->view,
                        [](SubflowId subflow) { return 100 + std::int64_t{subflow.value()}; });
  const SubflowId fresh = subflows.Add(0, 1, kLoadUnit, false);
  const SubflowId running = subflows.Add(0, 1, kLoadUnit, false);
  subflows[running].in_progress = true;
  EXPECT_EQ(subflows.CostOf(fresh), SubflowTable::kNotInProgress);
  EXPECT_EQ(subflows.CostOf(running), 101);
  MoveBudget budget{.moves = 2, .in_progress = 1, .bytes = 101};
  EXPECT_TRUE(subflows.CanMove(running, budget));
  subflows.Charge(fresh, budget);
  EXPECT_EQ(budget.moves, 1U);
  EXPECT_EQ(budget.in_progress, 1U);
  EXPECT_EQ(budget.bytes, 101);
  subflows.Charge(running, budget);
  EXPECT_EQ(budget.moves, 0U);
  EXPECT_EQ(budget.in_progress, 0U);
  EXPECT_EQ(budget.bytes, 0);
  EXPECT_FALSE(subflows.CanMove(fresh, budget));
  EXPECT_FALSE(subflows.CanMove(running, {.moves = 9, .in_progress = 9, .bytes = 100}));
  EXPECT_FALSE(subflows.CanMove(running, {.moves = 9, .in_progress = 0}));
  EXPECT_TRUE(subflows.CanMove(fresh, {.moves = 9, .in_progress = 0, .bytes = 0}));
  subflows[fresh].pinned = true;
  EXPECT_FALSE(subflows.CanMove(fresh, {}));
}

// If links are missing, the path through a spine is its index among the spines that both leaves
// have.
TEST(SubflowTable, TurnsRoutesIntoPathsAndBack) {
  auto spec = *fabric::BuildLeafSpine({.spines = 5, .leaves = 3, .hosts_per_leaf = 1});
  std::erase_if(spec.links, [](const fabric::Link& link) {
    return link.id == "leaf0--spine1" || link.id == "leaf2--spine3";
  });
  Fabric fabric(std::move(spec));
  ASSERT_TRUE(fabric.view.clos());
  SubflowTable subflows(fabric.view);
  const SubflowId subflow = subflows.Add(0, 2, kLoadUnit, false);
  const SubflowState& state = subflows[subflow];
  const CandidatePaths& paths = fabric.view.Candidates(0, 2);
  ASSERT_EQ(paths.size(), 3U);
  EXPECT_EQ(subflows.RouteCount(state), 5);
  for (std::int32_t path = 0; path < 3; ++path) {
    const std::int32_t route = subflows.ToRoute(state, path);
    EXPECT_EQ(subflows.ToPath(state, route), path);
    EXPECT_TRUE(subflows.IsUsable(state, route));
    EXPECT_TRUE(std::ranges::equal(subflows.LinksOf(state, route),
                                   paths.Hops(static_cast<std::size_t>(path))));
  }
  EXPECT_FALSE(subflows.IsUsable(state, 1));
  EXPECT_FALSE(subflows.IsUsable(state, 3));
  EXPECT_EQ(subflows.ToPath(state, kNoPath), kNoPath);
  EXPECT_EQ(subflows.ToRoute(state, kNoPath), kNoPath);
}

}  // namespace
}  // namespace espalier::controller
