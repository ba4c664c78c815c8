#include "collective/forest/general/shallow_forest.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "collective/forest/problem/build_problem.h"
#include "tests/collective/forest/check_forest.h"
#include "tests/collective/forest/random_forest.h"
#include "tests/collective/forest/reference_cases.h"

namespace espalier::forest {
namespace {

struct Built {
  Forest forest;
  Heights heights;
  int tries = 0;  // forests that were packed
};

Built Build(const Problem& problem, const TreeCount& count, std::int64_t height_steps) {
  Built built;
  const Control control{.cancelled = {}, .progress = [&](std::string_view stage, double done) {
                          built.tries += stage == "lift" && done == 1 ? 1 : 0;
                        }};
  auto forest = BuildShallowForest(problem, count, height_steps, control);
  EXPECT_TRUE(forest.has_value()) << forest.error().message;
  built.forest = std::move(*forest);
  built.heights = ComputeHeights(built.forest);
  EXPECT_EQ(FindFault(problem, count, built.forest), "");
  return built;
}

Built Build(const std::string& name, std::int64_t height_steps) {
  const Problem problem = MakeReferenceProblem(name);
  return Build(problem, *CountTrees(problem, *ComputeOptimality(problem)), height_steps);
}

// A line of seven ranks; the last one is its middle.
Problem MakeLine() {
  fabric::TopologySpec spec;
  for (const char* id : {"n0", "n1", "n2", "n4", "n5", "n6", "n3"})
    spec.nodes.emplace_back().id = id;
  const std::vector<int> order = {0, 1, 2, 6, 3, 4, 5};
  for (std::size_t i = 1; i < order.size(); ++i) {
    fabric::Link& link = spec.links.emplace_back();
    link.a = fabric::NodeId(order[i - 1]);
    link.b = fabric::NodeId(order[i]);
    link.rate = BitsPerSecond{10};
  }
  return *BuildProblem(BuildTopology(std::move(spec)), {});
}

// A height of 1.5 times the greatest distance is enough: on the star 1, in the ring and on the
// line 6.
TEST(BuildShallowForest, StopsAtTheFirstForestThatIsShallowEnough) {
  for (const auto& [name, height] : {std::pair("a100_1", 1), {"ring8", 4}}) {
    const Built built = Build(name, 100'000);
    EXPECT_EQ(built.heights.max, height) << name;
    EXPECT_EQ(built.tries, 1) << name;
  }
  const Problem line = MakeLine();
  const Built built = Build(line, *CountTrees(line, *ComputeOptimality(line)), 100'000);
  EXPECT_EQ(built.heights.max, 6);
  EXPECT_EQ(built.tries, 1);
}

// Between two ranks on switches the distance is 1, which these trees do not attain.
TEST(BuildShallowForest, TriesOtherForestsWhileThereAreSteps) {
  const Built with_steps = Build("clos4x4s2", 1'500'000);
  EXPECT_EQ(with_steps.heights.max, 2);
  EXPECT_GT(with_steps.tries, 1);
  EXPECT_LT(with_steps.tries, 16);  // one limit for all
  const Built without = Build("clos4x4s2", 0);
  EXPECT_EQ(without.tries, 1);
  EXPECT_EQ(without.forest.parents, MakeRawForest("clos4x4s2").forest.parents);
}

// Chords of the ring on which no tree fits shorten no distance.
TEST(BuildShallowForest, MeasuresDistancesOverArcsWithCapacity) {
  fabric::TopologySpec spec = MakeReferenceTopology("ring8");
  TreeCount count = MakeRawForest("ring8").count;
  for (int i = 0; i < 4; ++i) {
    fabric::Link& chord = spec.links.emplace_back(spec.links.front());
    chord.a = fabric::NodeId(i);
    chord.b = fabric::NodeId(i + 4);
  }
  const Problem problem = *BuildProblem(BuildTopology(spec), {});
  const std::int64_t each = count.capacity.front();
  count.capacity.clear();
  for (const Arc& arc : problem.arcs) {
    count.capacity.push_back(std::abs(arc.head - arc.tail) == 4 ? 0 : each);
  }
  EXPECT_EQ(Build(problem, count, 100'000).tries, 1);
}

TEST(BuildShallowForest, RegrowsOrGrowsLargeForests) {
  const Built regrown = Build("a100_16", 1);
  EXPECT_EQ(regrown.heights.max, 2);
  EXPECT_EQ(regrown.tries, 1);
  const Built grown = Build("hcube7", 1);
  EXPECT_EQ(grown.heights.max, 7);
  EXPECT_EQ(grown.tries, 0);
  for (const char* name : {"a100_16", "hcube7"}) {
    EXPECT_EQ(Build(name, 0).forest.parents, MakeRawForest(name).forest.parents) << name;
  }
}

TEST(BuildShallowForest, ReducesHeightsOfMediumForests) {
  EXPECT_EQ(Build("clos16x8s8+deadspine", 1).heights.max, 3);
  EXPECT_EQ(Build("clos16x8s8+deadspine", 100'000).heights.max, 2);
}

TEST(BuildShallowForest, EndsWhenCancelled) {
  for (const char* name : {"ring8", "a100_16", "hcube7"}) {
    const RawForest raw = MakeRawForest(name);
    const auto forest =
        BuildShallowForest(raw.problem, raw.count, 1, {.cancelled = [] { return true; }});
    ASSERT_FALSE(forest.has_value()) << name;
    EXPECT_EQ(forest.error().code, ErrorCode::kUnavailable);
  }
}

}  // namespace
}  // namespace espalier::forest
