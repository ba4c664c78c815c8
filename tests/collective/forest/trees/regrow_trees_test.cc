#include "collective/forest/trees/regrow_trees.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "collective/forest/bound/optimality.h"
#include "collective/forest/bound/tree_count.h"
#include "collective/forest/general/general_forest.h"
#include "collective/forest/problem/build_problem.h"
#include "tests/collective/forest/check_forest.h"
#include "tests/collective/forest/random_forest.h"
#include "tests/collective/forest/random_problem.h"
#include "tests/collective/forest/reference_cases.h"

namespace espalier::forest {
namespace {

// Chains over a hundred ranks and more become nearly as shallow as possible, with failures or
// without.
TEST(RegrowTrees, TurnsChainsIntoShallowTrees) {
  struct Case {
    std::string name;
    std::int32_t max_height;
  };
  const Case cases[] = {{"a100_64", 3},
                        {"a100_32+deadnics", 8},
                        {"a100_32+slownic", 8},
                        {"h100_64", 2},
                        {"h100_32+deadnic", 8},
                        {"clos16x32s32", 4},
                        {"clos16x16s16+deadspine", 8},
                        {"clos16x16s16+deadlink", 8},
                        {"mi250_16", 10},
                        {"torus16x16", 20},
                        {"hcube7", 10}};
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    RawForest made = MakeRawForest(c.name);
    EXPECT_GT(ComputeHeights(made.forest).max, 30);
    EXPECT_TRUE(RegrowTrees(made.problem, made.count, made.forest));
    EXPECT_EQ(FindFault(made.problem, made.count, made.forest), "");
    EXPECT_LE(ComputeHeights(made.forest).max, c.max_height);
    EXPECT_EQ(made.forest.unroutable_edges, 0);
  }
}

TEST(RegrowTrees, KeepsForestsOfRandomGraphsSoundAndNoHigher) {
  constexpr std::uint64_t kSeed = 77'001;
  std::mt19937_64 random(kSeed);
  int lower = 0;
  int high = 0;
  for (int round = 0; round < 300; ++round) {
    SCOPED_TRACE(testing::Message() << "seed " << kSeed << " round " << round);
    const fabric::Topology topology =
        BuildTopology(MakeRandomGraph({.max_ranks = 30, .max_switches = 10}, random));
    const Result<Problem> problem = BuildProblem(topology, {});
    ASSERT_TRUE(problem.has_value());
    const Result<Optimality> optimality = ComputeOptimality(*problem);
    if (!optimality) continue;
    const TreeCount count = *CountTrees(*problem, *optimality);
    Forest forest = *BuildGeneralForest(*problem, count);
    const Heights before = ComputeHeights(forest);
    const bool regrown = RegrowTrees(*problem, count, forest);
    ASSERT_EQ(FindFault(*problem, count, forest), "");
    const Heights after = ComputeHeights(forest);
    EXPECT_LE(after.max, before.max);
    EXPECT_EQ(regrown, std::pair(after.max, after.mean) < std::pair(before.max, before.mean));
    high += before.max > 3;
    lower += regrown;
  }
  EXPECT_GT(lower, high * 9 / 10);
}

TEST(RegrowTrees, LeavesTheForestAloneWhenCancelled) {
  RawForest made = MakeRawForest("a100_32+deadnics");
  const std::vector<Rank> parents = made.forest.parents;
  std::int64_t all = 0;
  RawForest counted = made;
  const Control counting{.cancelled = [&] { return ++all < 0; }};
  ASSERT_TRUE(RegrowTrees(counted.problem, counted.count, counted.forest, counting));
  ASSERT_GT(all, 10);
  for (std::int64_t limit = 0; limit < all; limit += 1 + all / 10) {
    std::int64_t asked = 0;
    const Control control{.cancelled = [&] { return ++asked > limit; }};
    EXPECT_FALSE(RegrowTrees(made.problem, made.count, made.forest, control)) << limit;
    EXPECT_EQ(made.forest.parents, parents);
  }
}

// Without switches no edge splitting is needed: the height is the diameter.
TEST(GrowTrees, GrowsShortestPathTreesOnToriAndHypercubes) {
  struct Case {
    std::string name;
    std::int32_t height;
  };
  for (const Case& c :
       {Case{"torus4x4", 4}, {"torus4x4x8", 8}, {"torus16x16", 16}, {"hcube7", 7}}) {
    SCOPED_TRACE(c.name);
    const Problem problem = MakeReferenceProblem(c.name);
    const TreeCount count = *CountTrees(problem, *ComputeOptimality(problem));
    const std::optional<Forest> forest = GrowTrees(problem, count);
    ASSERT_TRUE(forest.has_value());
    EXPECT_EQ(FindFault(problem, count, *forest), "");
    EXPECT_EQ(ComputeHeights(*forest).max, c.height);
  }
}

TEST(GrowTrees, GivesNoForestOrASoundOneForRandomGraphs) {
  constexpr std::uint64_t kSeed = 78'001;
  std::mt19937_64 random(kSeed);
  int grown = 0;
  for (int round = 0; round < 200; ++round) {
    SCOPED_TRACE(testing::Message() << "seed " << kSeed << " round " << round);
    const fabric::Topology topology =
        BuildTopology(MakeRandomGraph({.max_ranks = 30, .max_switches = 0}, random));
    const Result<Problem> problem = BuildProblem(topology, {});
    ASSERT_TRUE(problem.has_value());
    const Result<Optimality> optimality = ComputeOptimality(*problem);
    if (!optimality) continue;
    const TreeCount count = *CountTrees(*problem, *optimality);
    const std::optional<Forest> forest = GrowTrees(*problem, count);
    if (!forest) continue;
    ++grown;
    ASSERT_EQ(FindFault(*problem, count, *forest), "");
  }
  EXPECT_GT(grown, 20);
}

TEST(GrowTrees, GrowsNothingWhereThereAreSwitchesOrWhenCancelled) {
  const RawForest switched = MakeRawForest("a100_4");
  EXPECT_FALSE(GrowTrees(switched.problem, switched.count).has_value());
  const RawForest direct = MakeRawForest("torus4x4");
  EXPECT_FALSE(
      GrowTrees(direct.problem, direct.count, {.cancelled = [] { return true; }}).has_value());
}

}  // namespace
}  // namespace espalier::forest
