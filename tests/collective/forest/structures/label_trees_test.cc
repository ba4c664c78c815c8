#include "collective/forest/structures/label_trees.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "collective/forest/problem/build_problem.h"
#include "common/fabric/accelerator_builders.h"

namespace espalier::forest {
namespace {

constexpr BitsPerSecond kUnit{1'000'000'000};

Problem ProblemOf(Result<fabric::TopologySpec> spec) {
  auto topology = fabric::Topology::Build(*spec);
  EXPECT_TRUE(topology.has_value());
  auto problem = BuildProblem(*topology, {});
  EXPECT_TRUE(problem.has_value());
  return *problem;
}

std::optional<Forest> LabelTreesOf(const Problem& problem, std::int64_t fixed_k = 0) {
  const auto optimality = ComputeOptimality(problem);
  const auto count = fixed_k == 0 ? CountTrees(problem, *optimality)
                                  : CountTreesFixed(problem, *optimality, fixed_k);
  auto forest = BuildLabelTrees(problem, *count);
  EXPECT_TRUE(forest.has_value());
  return std::move(*forest);
}

// Checks that no arc exceeds its capacity at the claimed scale.
void ExpectWithinCapacity(const Problem& problem, const Forest& forest) {
  RouteCursor cursor(forest.routes);
  std::vector<std::int64_t> trees(problem.arcs.size(), 0);
  for (std::size_t c = 0; c < forest.classes.size(); ++c) {
    const auto parents = forest.Parents(c);
    for (std::size_t x = 0; x < parents.size(); ++x) {
      if (parents[x] == kNoRank) continue;
      const auto arc = forest.routes.Find(parents[x], static_cast<Rank>(x));
      ASSERT_GE(arc, 0);
      for (const auto& piece :
           cursor.Take(static_cast<std::size_t>(arc), forest.classes[c].count)) {
        for (const std::int32_t hop : forest.routes.Hops(*piece.route)) {
          trees[static_cast<std::size_t>(hop)] += piece.count;
        }
      }
    }
  }
  for (std::size_t a = 0; a < trees.size(); ++a) {
    EXPECT_LE(Rational(trees[a], problem.arcs[a].capacity), forest.scale);
  }
}

TEST(BuildLabelTrees, ReachesTheBoundAtTheHeightOfTheDiameter) {
  struct Case {
    std::string name;
    Result<fabric::TopologySpec> spec;
    std::int32_t diameter;
  };
  const std::vector<Case> cases = {
      {"ring8", fabric::BuildRing({.nodes = 8}), 4},
      {"directed ring8", fabric::BuildRing({.nodes = 8, .directed = true}), 7},
      {"torus4x4", fabric::BuildTorus(std::vector{4, 4}, kUnit), 4},
      {"torus3x3x3", fabric::BuildTorus(std::vector{3, 3, 3}, kUnit), 3},
      {"torus16x16", fabric::BuildTorus(std::vector{16, 16}, kUnit), 16},
      {"torus2x3x4", fabric::BuildTorus(std::vector{2, 3, 4}, kUnit), 4},
      {"hypercube3", fabric::BuildHypercube(3, kUnit), 3},
      {"hypercube7", fabric::BuildHypercube(7, kUnit), 7},
  };
  for (const Case& c : cases) {
    const Problem problem = ProblemOf(c.spec);
    const auto forest = LabelTreesOf(problem);
    ASSERT_TRUE(forest.has_value()) << c.name;
    EXPECT_EQ(forest->method, Method::kLabels);
    EXPECT_EQ(ComputeHeights(*forest).max, c.diameter) << c.name;
    EXPECT_EQ(forest->inverse_rate, ComputeOptimality(problem)->inverse_rate) << c.name;
    ExpectWithinCapacity(problem, *forest);
  }
}

TEST(BuildLabelTrees, ServesFixedKToo) {
  const Problem problem = ProblemOf(fabric::BuildRing({.nodes = 8}));
  for (const std::int64_t k : {1, 2, 3, 4, 5}) {
    const auto forest = LabelTreesOf(problem, k);
    if (!forest) continue;  // may not be possible on shortest paths
    EXPECT_EQ(forest->trees_per_weight, k);
    ExpectWithinCapacity(problem, *forest);
  }
}

TEST(BuildLabelTrees, DoesNotApplyToOtherNetworks) {
  EXPECT_FALSE(LabelTreesOf(ProblemOf(fabric::BuildA100({.boxes = 1}))).has_value());
  EXPECT_FALSE(LabelTreesOf(ProblemOf(fabric::BuildMi250({.boxes = 1}))).has_value());
}

TEST(BuildLabelTrees, StopsWhenCancelled) {
  const Problem problem = ProblemOf(fabric::BuildRing({.nodes = 8}));
  const auto count = CountTrees(problem, *ComputeOptimality(problem));
  const auto forest = BuildLabelTrees(problem, *count, {.cancelled = [] { return true; }});
  ASSERT_FALSE(forest.has_value());
  EXPECT_EQ(forest.error().code, ErrorCode::kUnavailable);
}

}  // namespace
}  // namespace espalier::forest
