#include "collective/forest/trees/level_growth.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/collective/forest/trees/hand_made_forest.h"

namespace espalier::forest {
namespace {

// Four ranks on the switch 4. The root can serve two of them; the last one has the choice between
// these two.
TEST(LevelGrowth, TakesTheSenderWithTheMostRoom) {
  for (const auto& [room2, room3] : {std::pair(1, 5), {5, 1}, {5, 0}, {0, 5}}) {
    std::vector<Arc> arcs = {{0, 4, 2}, {2, 4, room2}, {3, 4, room3}};
    for (const std::int32_t rank : {1, 2, 3}) arcs.push_back({4, rank, 1});
    const HandMadeForest made = MakeHandMadeForest(
        4, {0, 0, 0, 0, -1}, arcs, {{0, 1, {{0, 4, 2}, {0, 4, 3}, {room2 > 0 ? 2 : 3, 4, 1}}}});
    const auto half_routes = HalfRoutes::Find(made.problem, made.count, made.forest);
    TreeTable trees(made.problem, made.count, made.forest, *half_routes);
    LevelGrowth growth(made.problem, *half_routes, trees);
    EXPECT_TRUE(growth.Grow({}));
    EXPECT_TRUE(growth.Pending().empty());
    const std::vector<Rank> parents(trees.Parents(0).begin(), trees.Parents(0).end());
    EXPECT_EQ(parents,
              (std::vector<Rank>{kNoRank, static_cast<Rank>(room2 > room3 ? 2 : 3), 0, 0}));
  }
}

}  // namespace
}  // namespace espalier::forest
