#include "collective/forest/trees/reduce_tree_heights.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <utility>

#include "tests/collective/forest/check_forest.h"
#include "tests/collective/forest/random_forest.h"
#include "tests/seeds.h"

namespace espalier::forest {
namespace {

std::pair<std::int32_t, double> HeightsOf(const Forest& forest) {
  const Heights heights = ComputeHeights(forest);
  return {heights.max, heights.mean};
}

TEST(ReduceTreeHeights, MakesChainsShallow) {
  struct Case {
    std::string name;
    std::int32_t max_height;
  };
  for (const Case& c : {Case{"a100_2", 8}, Case{"h100_2", 3}, Case{"hcube4", 5},
                        Case{"clos4x4s4", 4}, Case{"mi250_1", 9}}) {
    SCOPED_TRACE(c.name);
    RawForest raw = MakeRawForest(c.name);
    const auto before = HeightsOf(raw.forest);
    EXPECT_GT(before.first, c.max_height);
    EXPECT_GT(ReduceTreeHeights(raw.problem, raw.count, {.steps = 2'000'000}, raw.forest), 0);
    EXPECT_LE(HeightsOf(raw.forest).first, c.max_height);
    EXPECT_EQ(FindFault(raw.problem, raw.count, raw.forest), "");
  }
}

TEST(ReduceTreeHeights, KeepsRandomForestsSoundAndNoHigherAndIsDeterministic) {
  int shallower = 0;
  const std::vector<std::uint64_t> seeds = SeedsToTry(1, 60);
  for (const std::uint64_t seed : seeds) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    auto raw = MakeRandomRawForest(random);
    if (!raw) continue;
    Forest again = raw->forest;
    const auto before = HeightsOf(raw->forest);
    ReduceTreeHeights(raw->problem, raw->count, {.steps = 20'000}, raw->forest);
    EXPECT_EQ(FindFault(raw->problem, raw->count, raw->forest), "");
    EXPECT_LE(HeightsOf(raw->forest), before);
    shallower += HeightsOf(raw->forest) < before ? 1 : 0;
    ReduceTreeHeights(raw->problem, raw->count, {.steps = 20'000}, again);
    EXPECT_EQ(again.parents, raw->forest.parents);
    EXPECT_EQ(again.classes, raw->forest.classes);
  }
  EXPECT_TRUE(shallower > 0 || seeds.size() == 1);
}

TEST(ReduceTreeHeights, LeavesTheForestAloneWhenCancelledOrWithoutSteps) {
  RawForest raw = MakeRawForest("a100_2");
  const std::vector<Rank> before = raw.forest.parents;
  ReduceTreeHeights(raw.problem, raw.count, {}, raw.forest, {.cancelled = [] { return true; }});
  EXPECT_EQ(raw.forest.parents, before);
  EXPECT_EQ(ReduceTreeHeights(raw.problem, raw.count, {.steps = 0}, raw.forest), 0);
  EXPECT_EQ(raw.forest.parents, before);
}

}  // namespace
}  // namespace espalier::forest
