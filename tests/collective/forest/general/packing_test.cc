#include "collective/forest/general/packing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "collective/forest/edge_splitting/elimination.h"
#include "tests/collective/forest/edge_splitting/random_split_graph.h"
#include "tests/collective/forest/reference_cases.h"
#include "tests/seeds.h"

namespace espalier::forest {
namespace {

// Returns the edges from the root down to a rank; -1 if the rank is not below the root.
int DepthOf(std::span<const Rank> parents, Rank root, Rank rank) {
  for (std::size_t depth = 0; depth < parents.size(); ++depth, rank = parents[rank]) {
    if (rank == root) return static_cast<int>(depth);
    if (parents[rank] == kNoRank) break;
  }
  return -1;
}

// The trees fit into the graph without switches, which is as it was before any rank was removed.
TEST(PackTrees, FillsTheGraphThatItRestores) {
  int divided = 0;
  const std::vector<std::uint64_t> seeds = SeedsToTry(1, 300);
  for (const std::uint64_t seed : seeds) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    auto made = MakeRandomSplitGraph(random);
    if (!made) continue;
    Elimination elimination = *EliminateNodes(made->problem, made->count, {}, {});
    for (const Removal& removal : elimination.switches) made->graph.Apply(removal);
    const Packing packing =
        *PackTrees(elimination.graph, elimination.ranks, elimination.last, made->need, {});
    auto left = MatrixOf(elimination.graph);
    EXPECT_EQ(left, MatrixOf(made->graph));
    EXPECT_TRUE(std::ranges::is_sorted(packing.classes, {}, &TreeClass::root));
    const auto ranks = static_cast<std::size_t>(made->problem.rank_count);
    ASSERT_EQ(packing.parents.size(), ranks * packing.classes.size());
    for (std::size_t c = 0; c < packing.classes.size(); ++c) {
      const auto [root, count] = packing.classes[c];
      EXPECT_GT(count, 0);
      const std::span parents(packing.parents.data() + c * ranks, ranks);
      for (Rank rank = 0; rank < ranks; ++rank) {
        EXPECT_GE(DepthOf(parents, root, rank), 0);
        const Rank parent = parents[rank];
        EXPECT_EQ(parent == kNoRank, rank == root);
        left[parent == kNoRank ? left.size() - 1 : parent][rank] -= count;
      }
    }
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      EXPECT_EQ(left.back()[rank], 0) << "trees at root " << rank;
      for (std::size_t from = 0; from < ranks; ++from) EXPECT_GE(left[from][rank], 0);
    }
    divided += packing.classes.size() > ranks ? 1 : 0;
  }
  EXPECT_TRUE(divided > 10 || seeds.size() == 1) << divided;
}

TEST(PackTrees, TellsItsProgressAndEndsWhenCancelled) {
  const Problem problem = MakeReferenceProblem("uring8");
  const TreeCount count = *CountTrees(problem, *ComputeOptimality(problem));
  Elimination elimination = *EliminateNodes(problem, count, {}, {});
  std::vector<double> progress;
  std::size_t limit = 8;
  const Control control{.cancelled = [&] { return progress.size() == limit; },
                        .progress =
                            [&](std::string_view stage, double done) {
                              EXPECT_EQ(stage, "lift");
                              progress.push_back(done);
                            }};
  SplitGraph copy = elimination.graph;
  ASSERT_TRUE(PackTrees(copy, elimination.ranks, elimination.last, 8, control).has_value());
  EXPECT_EQ(progress.size(), 7U);
  EXPECT_TRUE(std::ranges::is_sorted(progress));
  EXPECT_EQ(progress.back(), 1);
  progress.clear();
  limit = 3;
  const auto packing =
      PackTrees(elimination.graph, elimination.ranks, elimination.last, 8, control);
  ASSERT_FALSE(packing.has_value());
  EXPECT_EQ(packing.error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(packing.error().message, "cancelled");
}

}  // namespace
}  // namespace espalier::forest
