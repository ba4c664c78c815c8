#include "collective/forest/bound/optimality.h"

#include <gtest/gtest.h>

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
  for (std::int64_t k = 1; k <= 7; ++k) {
    const Result<TreeCount> count = CountTreesFixed(problem, *optimality, k);
    if (count && (!best || count->inverse_rate < *best)) best = count->inverse_rate;
  }
  const Result<TreeCount> count = CountTreesAtMost(problem, *optimality, 7);
  ASSERT_TRUE(count.has_value());
  EXPECT_EQ(count->inverse_rate, *best);
  EXPECT_LE(count->trees_per_weight, 7);
}

INSTANTIATE_TEST_SUITE_P(Table, ReferenceBound, testing::ValuesIn(ReferenceRows()),
                         [](const auto& row) { return std::string(row.param.name); });

}  // namespace
}  // namespace espalier::forest
