#include "controller/routing/occupancy/way_table.h"

#include <gtest/gtest.h>

#include "tests/controller/routing/test_fabric.h"

namespace espalier::controller {
namespace {

TEST(WayTable, UsesNumbersAgainAndForgetsWhatTheyNamed) {
  auto fabric = Fabric::LeafSpine(2, 3);
  WayTable ways(fabric->view);
  const WayId first = ways.Add(0, 1, kLoadUnit, true);
  const WayId second = ways.Add(1, 2, kLoadUnit, false);
  EXPECT_NE(first, second);
  ways[first].live = true;
  ways[first].walk = 7;
  ways.Remove(first);
  const WayId third = ways.Add(2, 0, kLoadUnit / 4, false);
  EXPECT_EQ(third, first);
  EXPECT_EQ(ways[third].source, 2U);
  EXPECT_EQ(ways[third].destination, 0U);
  EXPECT_EQ(ways[third].share, kLoadUnit / 4);
  EXPECT_EQ(ways[third].route, kNoPath);
  EXPECT_EQ(ways[third].walk, 0U);
  EXPECT_FALSE(ways[third].live);
  EXPECT_FALSE(ways[third].pinned);
}

TEST(WayTable, CostsBytesInFlightOnlyForWaysThatHaveBegun) {
  auto fabric = Fabric::LeafSpine(2, 3);
  WayTable ways(fabric->view, [](WayId way) { return 100 + std::int64_t{way.value()}; });
  const WayId fresh = ways.Add(0, 1, kLoadUnit, false);
  const WayId live = ways.Add(0, 1, kLoadUnit, false);
  ways[live].live = true;
  EXPECT_EQ(ways.CostOf(fresh), WayTable::kNotLive);
  EXPECT_EQ(ways.CostOf(live), 101);
  MoveBudget budget{.moves = 2, .live = 1, .bytes = 101};
  EXPECT_TRUE(ways.CanMove(live, budget));
  ways.Charge(fresh, budget);
  EXPECT_EQ(budget.moves, 1U);
  EXPECT_EQ(budget.live, 1U);
  EXPECT_EQ(budget.bytes, 101);
  ways.Charge(live, budget);
  EXPECT_EQ(budget.moves, 0U);
  EXPECT_EQ(budget.live, 0U);
  EXPECT_EQ(budget.bytes, 0);
  EXPECT_FALSE(ways.CanMove(fresh, budget));
  EXPECT_FALSE(ways.CanMove(live, {.moves = 9, .live = 9, .bytes = 100}));
  EXPECT_FALSE(ways.CanMove(live, {.moves = 9, .live = 0}));
  EXPECT_TRUE(ways.CanMove(fresh, {.moves = 9, .live = 0, .bytes = 0}));
  ways[fresh].pinned = true;
  EXPECT_FALSE(ways.CanMove(fresh, {}));
}

// Where links are missing, the path of a spine is its place among the spines that both leaves know.
TEST(WayTable, TurnsRoutesIntoPathsAndBack) {
  auto spec = *fabric::BuildLeafSpine({.spines = 5, .leaves = 3, .hosts_per_leaf = 1});
  std::erase_if(spec.links, [](const fabric::Link& link) {
    return link.id == "leaf0--spine1" || link.id == "leaf2--spine3";
  });
  Fabric fabric(std::move(spec));
  ASSERT_TRUE(fabric.view.clos());
  WayTable ways(fabric.view);
  const WayId way = ways.Add(0, 2, kLoadUnit, false);
  const WayState& state = ways[way];
  const CandidatePaths& paths = fabric.view.Candidates(0, 2);
  ASSERT_EQ(paths.size(), 3U);
  EXPECT_EQ(ways.RouteCount(state), 5);
  for (std::int32_t path = 0; path < 3; ++path) {
    const std::int32_t route = ways.ToRoute(state, path);
    EXPECT_EQ(ways.ToPath(state, route), path);
    EXPECT_TRUE(ways.IsUsable(state, route));
    EXPECT_TRUE(
        std::ranges::equal(ways.LinksOf(state, route), paths.Hops(static_cast<std::size_t>(path))));
  }
  EXPECT_FALSE(ways.IsUsable(state, 1));
  EXPECT_FALSE(ways.IsUsable(state, 3));
  EXPECT_EQ(ways.ToPath(state, kNoPath), kNoPath);
  EXPECT_EQ(ways.ToRoute(state, kNoPath), kNoPath);
}

}  // namespace
}  // namespace espalier::controller
