#include "collective/forest/trees/sender_exchange.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "collective/forest/bound/optimality.h"
#include "collective/forest/general.h"
#include "tests/collective/forest/check_forest.h"
#include "tests/collective/forest/random_problem.h"
#include "tests/collective/forest/reference_cases.h"

namespace espalier::forest {
namespace {

struct Made {
  Problem problem;
  TreeCount count;
  Forest forest;
};

Made MakeRaw(const std::string& name) {
  Made made;
  made.problem = MakeReferenceProblem(name);
  made.count = *CountTrees(made.problem, *ComputeOptimality(made.problem));
  made.forest = *BuildGeneralForest(made.problem, made.count);
  return made;
}

// Chains over a hundred ranks and more become as low as the bound on heights asks for: twice
// what a machine without damage needs, and four.
TEST(ExchangeSenders, TurnsChainsIntoLowTrees) {
  struct Case {
    std::string name;
    std::int32_t max_height;
  };
  const Case cases[] = {{"a100_64", 8},      {"a100_32+deadnics", 8},       {"h100_64", 8},
                        {"clos16x32s32", 8}, {"clos16x16s16+deadspine", 8}, {"mi250_16", 20},
                        {"torus16x16", 36}};
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    Made made = MakeRaw(c.name);
    EXPECT_GT(ComputeHeights(made.forest).max, 40);
    ExchangeSenders(made.problem, made.count, {.low_enough = c.max_height, .steps_an_edge = 100},
                    made.forest);
    EXPECT_EQ(FindFault(made.problem, made.count, made.forest), "");
    EXPECT_LE(ComputeHeights(made.forest).max, c.max_height);
    EXPECT_EQ(made.forest.unroutable_edges, 0);
  }
}

TEST(ExchangeSenders, KeepsForestsOfRandomGraphsSoundAndNoHigher) {
  constexpr std::uint64_t kSeed = 77'001;
  std::mt19937_64 random(kSeed);
  int lower = 0;
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
    ExchangeSenders(*problem, count, {}, forest);
    ASSERT_EQ(FindFault(*problem, count, forest), "");
    const Heights after = ComputeHeights(forest);
    EXPECT_LE(after.max, before.max);
    lower += after.max < before.max;
  }
  EXPECT_GT(lower, 50);
}

TEST(ExchangeSenders, LeavesTheForestAloneWhenCancelledOrOutOfSteps) {
  Made made = MakeRaw("a100_16");
  const std::vector<Rank> parents = made.forest.parents;
  ExchangeSenders(made.problem, made.count, {.steps_an_edge = 0}, made.forest);
  EXPECT_EQ(made.forest.parents, parents);
  ExchangeSenders(made.problem, made.count, {}, made.forest, {.cancelled = [] { return true; }});
  EXPECT_EQ(made.forest.parents, parents);
}

}  // namespace
}  // namespace espalier::forest
