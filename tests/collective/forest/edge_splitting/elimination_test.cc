#include "collective/forest/edge_splitting/elimination.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <vector>

#include "collective/forest/edge_splitting/elimination_order.h"
#include "tests/collective/forest/edge_splitting/random_split_graph.h"
#include "tests/collective/forest/reference_cases.h"
#include "tests/seeds.h"

namespace espalier::forest {
namespace {

// After each removal the node is isolated, and all units still reach all remaining ranks.
TEST(EliminateNodes, KeepsAllFlowsAfterEveryRemoval) {
  for (const std::uint64_t seed : SeedsToTry(1, 150)) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    auto made = MakeRandomSplitGraph(random);
    if (!made) continue;
    const auto first =
        static_cast<std::int32_t>(random() % static_cast<std::uint64_t>(made->problem.rank_count));
    auto elimination = EliminateNodes(made->problem, made->count, {.first_rank = first}, {});
    ASSERT_TRUE(elimination.has_value()) << elimination.error().message;
    std::set<std::int32_t> left;
    for (std::int32_t rank = 0; rank < made->problem.rank_count; ++rank) left.insert(rank);
    std::vector<Removal> removals = elimination->switches;
    EXPECT_EQ(removals.size(),
              static_cast<std::size_t>(made->problem.node_count - made->problem.rank_count));
    removals.insert(removals.end(), elimination->ranks.begin(), elimination->ranks.end());
    for (const Removal& removal : removals) {
      made->graph.Apply(removal);
      left.erase(removal.node);
      const NodeTotals totals = TotalsOf(made->graph, removal.node);
      EXPECT_EQ(totals.in, 0);
      EXPECT_EQ(totals.out, 0);
      for (const std::int32_t rank : left) {
        EXPECT_EQ(DeficitOf(made->graph, rank, made->need), 0) << "rank " << rank;
      }
    }
    EXPECT_EQ(left, std::set<std::int32_t>{elimination->last});
    EXPECT_EQ(MatrixOf(made->graph), MatrixOf(elimination->graph));
  }
}

TEST(EliminateNodes, GivesUpWhenItsStepsAreUsedUp) {
  const Problem problem = MakeReferenceProblem("a100_2");
  const TreeCount count = *CountTrees(problem, *ComputeOptimality(problem));
  const auto elimination = EliminateNodes(problem, count, {.step_budget = 10}, {});
  ASSERT_FALSE(elimination.has_value());
  EXPECT_EQ(elimination.error().code, ErrorCode::kResourceExhausted);
}

}  // namespace
}  // namespace espalier::forest
