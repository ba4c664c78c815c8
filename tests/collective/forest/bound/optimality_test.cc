#include "collective/forest/bound/optimality.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "collective/forest/bound/tree_count.h"
#include "tests/collective/forest/reference_cases.h"

namespace espalier::forest {
namespace {

class ReferenceBound : public testing::TestWithParam<ReferenceRow> {};

TEST_P(ReferenceBound, IsExact) {
  const ReferenceRow& row = GetParam();
  const Problem problem = MakeReferenceProblem(row.name);
  EXPECT_EQ(problem.rank_count, row.ranks);
  EXPECT_EQ(problem.node_count, row.nodes);
  EXPECT_EQ(problem.arcs.size(), static_cast<std::size_t>(row.arcs));

  const Result<Optimality> optimality = ComputeOptimality(problem);
  ASSERT_TRUE(optimality.has_value()) << optimality.error().message;
  const auto table = [&](const Rational& value) {
    return PerTableUnit(row.name, problem, value).ToString();
  };
  EXPECT_EQ(table(optimality->inverse_rate), row.inverse_rate);

  const Result<TreeCount> count = CountTrees(problem, *optimality);
  ASSERT_TRUE(count.has_value()) << count.error().message;
  EXPECT_EQ(count->trees_per_weight, row.trees);
  EXPECT_EQ(table(count->scale), row.scale);
  EXPECT_EQ(count->inverse_rate, optimality->inverse_rate);
}

TEST_P(ReferenceBound, IsExactForFixedTreeCounts) {
  const ReferenceRow& row = GetParam();
  const Problem problem = MakeReferenceProblem(row.name);
  const Result<Optimality> optimality = ComputeOptimality(problem);
  ASSERT_TRUE(optimality.has_value());
  for (std::size_t k = 1; k <= row.fixed_scales.size(); ++k) {
    const Result<TreeCount> count =
        CountTreesFixed(problem, *optimality, static_cast<std::int64_t>(k));
    ASSERT_TRUE(count.has_value()) << count.error().message;
    EXPECT_EQ(PerTableUnit(row.name, problem, count->scale).ToString(), row.fixed_scales[k - 1])
        << "k=" << k;
  }
}

TEST_P(ReferenceBound, IsNearestWithTheBestOfSeveralTreeCounts) {
  const Problem problem = MakeReferenceProblem(GetParam().name);
  const Result<Optimality> optimality = ComputeOptimality(problem);
  ASSERT_TRUE(optimality.has_value());
  std::optional<Rational> best;
  std::int64_t fewest = 0;
  for (std::int64_t k = 1; k <= 7; ++k) {
    const Result<TreeCount> count = CountTreesFixed(problem, *optimality, k);
    if (!count || (best && count->inverse_rate >= *best)) continue;
    best = count->inverse_rate;
    fewest = k;
  }
  const Result<TreeCount> count = CountTreesAtMost(problem, *optimality, 7);
  ASSERT_TRUE(count.has_value());
  EXPECT_EQ(count->inverse_rate, *best);
  EXPECT_EQ(count->trees_per_weight, fewest) << "more trees are of use only where they are faster";
}

INSTANTIATE_TEST_SUITE_P(Table, ReferenceBound, testing::ValuesIn(ReferenceRows()),
                         [](const auto& row) { return std::string(row.param.name); });

// Ranks with links between them, in both directions.
Problem MakeProblem(std::int32_t ranks, std::vector<Arc> arcs) {
  Problem problem;
  problem.node_count = problem.rank_count = ranks;
  problem.arcs = std::move(arcs);
  problem.weight.assign(static_cast<std::size_t>(ranks), 1);
  for (std::int32_t r = 0; r < ranks; ++r) problem.names.push_back("r" + std::to_string(r));
  return problem;
}

TEST(Optimality, NamesUnreachableRanksButNotAllOfMany) {
  const auto message = [](std::int32_t ranks) {
    const auto optimality = ComputeOptimality(MakeProblem(ranks, {{0, 1, 1}, {1, 0, 1}}));
    EXPECT_FALSE(optimality.has_value());
    return optimality ? std::string() : optimality.error().message;
  };
  EXPECT_TRUE(message(3).starts_with("r2 cannot be reached from r0, r1:")) << message(3);
  EXPECT_TRUE(message(5).starts_with("r2 cannot be reached from r0, r1, r3, r4:")) << message(5);
  EXPECT_TRUE(message(7).starts_with("r2 cannot be reached from r0, r1, r3, r4 and 2 more:"))
      << message(7);
}

// Capacities and supplies fit into 63 bits each, but not their total flow.
TEST(Optimality, RefusesProductsThatDoNotFitTogether) {
  Problem problem = MakeProblem(2, {{0, 1, 2'500'000'001}, {1, 0, 2'500'000'001}});
  problem.weight = {1'000'000'007, 1'000'000'007};
  const auto optimality = ComputeOptimality(problem);
  ASSERT_FALSE(optimality.has_value());
  EXPECT_EQ(optimality.error().code, ErrorCode::kResourceExhausted);
}

}  // namespace
}  // namespace espalier::forest
