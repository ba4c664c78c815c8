#include "collective/forest/general/general_forest.h"

#include <gtest/gtest.h>

#include "collective/forest/problem/build_problem.h"
#include "common/fabric/builders.h"
#include "tests/collective/forest/check_forest.h"
#include "tests/collective/forest/random_problem.h"
#include "tests/collective/forest/reference_cases.h"

namespace espalier::forest {
namespace {

class ReferenceForest : public testing::TestWithParam<ReferenceRow> {};

TEST_P(ReferenceForest, AttainsTheBound) {
  const Problem problem = MakeReferenceProblem(GetParam().name);
  const Result<Optimality> optimality = ComputeOptimality(problem);
  ASSERT_TRUE(optimality.has_value());
  const Result<TreeCount> count = CountTrees(problem, *optimality);
  ASSERT_TRUE(count.has_value());
  const Result<Forest> forest = BuildGeneralForest(problem, *count);
  ASSERT_TRUE(forest.has_value()) << forest.error().message;
  EXPECT_EQ(FindFault(problem, *count, *forest), "");
  EXPECT_EQ(forest->inverse_rate, optimality->inverse_rate);
  EXPECT_EQ(forest->unroutable_edges, 0);
}

TEST_P(ReferenceForest, ExistsForFixedTreeCounts) {
  const Problem problem = MakeReferenceProblem(GetParam().name);
  const Result<Optimality> optimality = ComputeOptimality(problem);
  ASSERT_TRUE(optimality.has_value());
  for (const std::int64_t k : {1, 2, 3, 4, 5}) {
    const Result<TreeCount> count = CountTreesFixed(problem, *optimality, k);
    ASSERT_TRUE(count.has_value());
    const Result<Forest> forest = BuildGeneralForest(problem, *count);
    ASSERT_TRUE(forest.has_value()) << forest.error().message;
    EXPECT_EQ(FindFault(problem, *count, *forest), "") << "k=" << k;
  }
}

// A leaf whose hosts take no part has only its trunk.
TEST(BuildGeneralForest, PassesByLeavesWithoutRanks) {
  const fabric::Topology topology =
      BuildTopology(*fabric::BuildLeafSpine({.spines = 2, .leaves = 3, .hosts_per_leaf = 2}));
  for (const std::int32_t idle : {0, 1, 2}) {
    SCOPED_TRACE(idle);
    ProblemOptions options;
    for (std::int32_t host = 0; host < 6; ++host) {
      if (host / 2 != idle) {
        options.ranks.push_back(*topology.FindNode("h" + std::to_string(host)));
      }
    }
    const Result<Problem> problem = BuildProblem(topology, options);
    ASSERT_TRUE(problem.has_value());
    const Result<TreeCount> count = CountTrees(*problem, *ComputeOptimality(*problem));
    const Result<Forest> forest = BuildGeneralForest(*problem, *count);
    ASSERT_TRUE(forest.has_value()) << forest.error().message;
    EXPECT_EQ(FindFault(*problem, *count, *forest), "");
    EXPECT_EQ(forest->unroutable_edges, 0);
  }
}

// It may be in guesses, in exact removals or in the lift.
TEST(BuildGeneralForest, EndsSoonAfterItIsCancelled) {
  const Problem problem = MakeReferenceProblem("torus4x4");
  const Result<TreeCount> count = CountTrees(problem, *ComputeOptimality(problem));
  std::int64_t all = 0;
  const Control counting{.cancelled = [&] { return ++all < 0; }};
  ASSERT_TRUE(BuildGeneralForest(problem, *count, {}, counting).has_value());
  EXPECT_GT(all, 100);
  for (std::int64_t limit = 0; limit < all; limit += 1 + all / 50) {
    std::int64_t asked = 0;
    const Control control{.cancelled = [&] { return ++asked > limit; }};
    const Result<Forest> forest = BuildGeneralForest(problem, *count, {}, control);
    ASSERT_FALSE(forest.has_value()) << limit;
    EXPECT_EQ(forest.error().code, ErrorCode::kUnavailable);
    EXPECT_LT(asked, limit + 100);
  }
}

INSTANTIATE_TEST_SUITE_P(Table, ReferenceForest, testing::ValuesIn(ReferenceRows()),
                         [](const auto& row) { return std::string(row.param.name); });

}  // namespace
}  // namespace espalier::forest
