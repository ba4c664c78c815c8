#include "collective/forest/problem/build_problem.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "collective/forest/bound/optimality.h"
#include "collective/forest/bound/tree_count.h"
#include "collective/forest/general/general_forest.h"
#include "collective/forest/model/problem.h"
#include "collective/forest/model/rational.h"
#include "tests/collective/forest/check_forest.h"
#include "tests/collective/forest/reference_cases.h"

namespace espalier::forest {
namespace {

using fabric::Link;
using fabric::LinkState;
using fabric::NodeId;
using fabric::NodeKind;
using fabric::TopologySpec;
using testing::HasSubstr;

constexpr std::int64_t kGigabit = 1'000'000'000;

// Nodes "c0", "c1", ... and then "s0", "s1", ...
struct Network {
  TopologySpec spec;
  Network(int ranks, int switches) {
    for (int i = 0; i < ranks + switches; ++i) {
      auto& node = spec.nodes.emplace_back();
      node.id = (i < ranks ? "c" : "s") + std::to_string(i < ranks ? i : i - ranks);
      node.kind = i < ranks ? NodeKind::kCompute : NodeKind::kSwitch;
    }
  }
  Network& Join(int a, int b, std::int64_t rate_bps = kGigabit, bool directed = false) {
    Link& link = spec.links.emplace_back();
    link.a = NodeId(a);
    link.b = NodeId(b);
    link.rate = BitsPerSecond{rate_bps};
    link.directed = directed;
    return *this;
  }
  Result<Problem> Build(const ProblemOptions& options = {}) const {
    return BuildProblem(BuildTopology(spec), options);
  }
};

void ExpectError(const Result<Problem>& problem, ErrorCode code, const char* text) {
  ASSERT_FALSE(problem.has_value());
  EXPECT_EQ(problem.error().code, code);
  EXPECT_THAT(problem.error().message, HasSubstr(text));
}

TEST(Rational, ComparesWithoutOverflow) {
  const Int128 huge = Int128{std::numeric_limits<std::int64_t>::max()} << 60;
  EXPECT_LT(Rational(huge - 1, huge), Rational(huge, huge + 1));
  EXPECT_GT(Rational(huge + 1, huge), Rational(huge + 2, huge + 1));
  EXPECT_EQ(Rational(6, 4), Rational(3, 2));
  EXPECT_EQ(Rational(7, 2).ToString(), "7/2");
  EXPECT_EQ(Rational(8, 2).ToString(), "4");
  EXPECT_LT(Rational(0, 1), Rational(1, huge));
  EXPECT_FALSE(Rational::Product(Rational(huge, 1), Rational(huge, 1)).has_value());
  EXPECT_EQ(Rational::Product(Rational(huge, 3), Rational(3, huge)), Rational(1, 1));
}

TEST(Problem, RefusesWhatIsNoCollective) {
  ExpectError(Network(0, 2).Join(0, 1).Build(), ErrorCode::kInvalidArgument, "there is none");
  ExpectError(Network(1, 1).Join(0, 1).Build(), ErrorCode::kInvalidArgument, "there is one");
  const Network two = Network(2, 1).Join(0, 2).Join(1, 2);
  ExpectError(two.Build({.ranks = {NodeId(0), NodeId(0)}}), ErrorCode::kInvalidArgument,
              "c0 is listed as a rank twice");
  ExpectError(two.Build({.ranks = {NodeId(0), NodeId(2)}}), ErrorCode::kInvalidArgument,
              "s0 cannot take part");
  ExpectError(two.Build({.weights = {0, 0}}), ErrorCode::kInvalidArgument, "no rank sends");
  ExpectError(two.Build({.weights = {1, -1}}), ErrorCode::kInvalidArgument, "negative");
  ExpectError(two.Build({.weights = {1}}), ErrorCode::kInvalidArgument, "1 weights for 2");
}

TEST(Problem, NamesAnUnbalancedNode) {
  ExpectError(Network(2, 1).Join(0, 2).Join(1, 2).Join(0, 2, kGigabit / 2, true).Build(),
              ErrorCode::kInvalidArgument, "c0 is out of balance: 1 Gbit/s enter and 1.5 Gbit/s");
}

TEST(Problem, LeavesOutDeadLinksAndComputeNodesThatAreNoRanks) {
  Network network(3, 1);
  network.Join(0, 3).Join(1, 3).Join(2, 3).Join(0, 1);
  network.spec.links[3].state = LinkState::kDrained;
  const Result<Problem> problem = network.Build({.ranks = {NodeId(0), NodeId(2)}});
  ASSERT_TRUE(problem.has_value());
  EXPECT_EQ(problem->names, (std::vector<std::string>{"c0", "c2", "s0"}));
  EXPECT_EQ(problem->arcs.size(), 4U);
}

TEST(Problem, AddsUpParallelLinksAndReducesRates) {
  const Result<Problem> problem = Network(2, 0).Join(0, 1, 40).Join(1, 0, 60).Build();
  ASSERT_TRUE(problem.has_value());
  EXPECT_EQ(problem->unit.value, 20);
  EXPECT_EQ(problem->arcs, (std::vector<Arc>{{0, 1, 5}, {1, 0, 5}}));
  EXPECT_EQ(problem->LinksOf(0).size(), 2U);
}

TEST(Problem, BalancesTheResidualCapacity) {
  const Network network = Network(4, 1).Join(0, 4).Join(1, 4).Join(2, 4).Join(3, 4);
  std::vector<BitsPerSecond> available(8, BitsPerSecond{kGigabit});
  available[0].value = kGigabit / 2;  // c0 to s0
  const Result<Problem> problem = network.Build({.available = available});
  ASSERT_TRUE(problem.has_value()) << problem.error().message;
  const Result<Optimality> optimality = ComputeOptimality(*problem);
  ASSERT_TRUE(optimality.has_value());
  const Result<TreeCount> count = CountTrees(*problem, *optimality);
  ASSERT_TRUE(count.has_value());
  const Result<Forest> forest = BuildGeneralForest(*problem, *count);
  ASSERT_TRUE(forest.has_value()) << forest.error().message;
  EXPECT_EQ(FindFault(*problem, *count, *forest), "");
}

TEST(Optimality, NamesRanksThatAreCutOff) {
  const Result<Problem> problem = Network(4, 0).Join(0, 1).Join(2, 3).Build();
  ASSERT_TRUE(problem.has_value());
  const Result<Optimality> optimality = ComputeOptimality(*problem);
  ASSERT_FALSE(optimality.has_value());
  EXPECT_EQ(optimality.error().code, ErrorCode::kFailedPrecondition);
  EXPECT_THAT(optimality.error().message, HasSubstr("c0, c1 cannot be reached from c2, c3"));
}

TEST(Optimality, NamesTheBottleneckCut) {
  // Two pairs with links of 10, joined by 1: the bottleneck is the link between the pairs.
  const Result<Problem> problem = Network(4, 0).Join(0, 1, 10).Join(2, 3, 10).Join(1, 2, 1).Build();
  ASSERT_TRUE(problem.has_value());
  const Result<Optimality> optimality = ComputeOptimality(*problem);
  ASSERT_TRUE(optimality.has_value());
  EXPECT_EQ(optimality->inverse_rate, Rational(2, 1));
  EXPECT_EQ(optimality->cut.size(), 2U);
}

TEST(Optimality, SaysWhereExactNumbersDoNotFit) {
  constexpr std::int64_t kPrime = 8'999'999'999'999'999'993;
  Network network(6, 0);
  for (int i = 0; i < 6; ++i) network.Join(i, (i + 1) % 6, kPrime / 11 - i);
  const Result<Problem> problem = network.Build();
  ASSERT_FALSE(problem.has_value());
  EXPECT_EQ(problem.error().code, ErrorCode::kResourceExhausted);

  Network smaller(6, 0);
  for (int i = 0; i < 6; ++i) smaller.Join(i, (i + 1) % 6, kPrime / 30 - i);
  const Result<Problem> fits = smaller.Build();
  ASSERT_TRUE(fits.has_value()) << fits.error().message;
  const Result<Optimality> optimality = ComputeOptimality(*fits);
  ASSERT_FALSE(optimality.has_value());
  EXPECT_EQ(optimality.error().code, ErrorCode::kResourceExhausted);
  EXPECT_THAT(optimality.error().message, HasSubstr("63 bits"));
}

TEST(Optimality, EndsWhenCancelled) {
  const Problem problem = MakeReferenceProblem("a100_2");
  const Control control{.cancelled = [] { return true; }, .progress = {}};
  EXPECT_EQ(ComputeOptimality(problem, control).error().code, ErrorCode::kUnavailable);
  const TreeCount count = *CountTrees(problem, *ComputeOptimality(problem));
  EXPECT_EQ(BuildGeneralForest(problem, count, {}, control).error().code, ErrorCode::kUnavailable);
}

TEST(TreeCount, OfOneRootIsTheLeastFlow) {
  Problem problem = MakeReferenceProblem("torus4x4");
  problem.weight.assign(16, 0);
  problem.weight[5] = 1;
  const Result<Optimality> optimality = ComputeOptimality(problem);
  ASSERT_TRUE(optimality.has_value());
  EXPECT_EQ(optimality->inverse_rate, Rational(1, 4));
  const TreeCount count = *CountTrees(problem, *optimality);
  const Result<Forest> forest = BuildGeneralForest(problem, count);
  ASSERT_TRUE(forest.has_value());
  EXPECT_EQ(FindFault(problem, count, *forest), "");
}

TEST(TreeCount, LimitedIsTheBestOfTheFixed) {
  const Problem problem = MakeReferenceProblem("mi250_2");
  const Optimality optimality = *ComputeOptimality(problem);
  Rational best = CountTreesFixed(problem, optimality, 1)->inverse_rate;
  for (const std::int64_t limit : {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}) {
    best = std::min(best, CountTreesFixed(problem, optimality, limit)->inverse_rate);
    const Result<TreeCount> count = CountTreesAtMost(problem, optimality, limit);
    ASSERT_TRUE(count.has_value());
    EXPECT_EQ(count->inverse_rate, best) << limit;
    EXPECT_LE(count->trees_per_weight, limit);
  }
  EXPECT_EQ(CountTreesAtMost(problem, optimality, 1000)->trees_per_weight, 83);
  EXPECT_EQ(CountTreesFixed(problem, optimality, 0).error().code, ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace espalier::forest
