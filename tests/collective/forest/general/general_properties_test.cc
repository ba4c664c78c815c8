#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <random>
#include <string>

#include "collective/forest/bound/optimality.h"
#include "collective/forest/bound/tree_count.h"
#include "collective/forest/general/general_forest.h"
#include "collective/forest/planner/planner.h"
#include "collective/forest/problem/build_problem.h"
#include "tests/collective/forest/check_forest.h"
#include "tests/collective/forest/random_problem.h"
#include "tests/collective/forest/reference_cases.h"

namespace espalier::forest {
namespace {

constexpr std::uint64_t kSeed = 4'202'611;
constexpr int kRounds = 1000;

// The shortcuts of the general construction fail on some random graphs: every fallback was taken.
void ExpectAllFallbacksTaken(const FallbackCounters& sum) {
  EXPECT_GT(sum.batches_halved, 0);
  EXPECT_GT(sum.guesses_refused, 0);
  EXPECT_GT(sum.bisections, 0);
  EXPECT_GT(sum.exact_gammas, 0);
  EXPECT_GT(sum.exhaustive_rounds, 0);
}

void Add(const FallbackCounters& counters, FallbackCounters& sum) {
  sum.batches_halved += counters.batches_halved;
  sum.guesses_refused += counters.guesses_refused;
  sum.bisections += counters.bisections;
  sum.exact_gammas += counters.exact_gammas;
  sum.exhaustive_rounds += counters.exhaustive_rounds;
}

// Checks that every capacity is floor(U * b).
bool IsRoundedDown(const Problem& problem, const TreeCount& count) {
  for (std::size_t a = 0; a < problem.arcs.size(); ++a) {
    const Int128 product = count.scale.numerator() * problem.arcs[a].capacity;
    if (count.capacity[a] != static_cast<std::int64_t>(product / count.scale.denominator())) {
      return false;
    }
  }
  return true;
}

TEST(RandomGraphs, HaveTheBoundOfAllTheirCutsAndForestsThatAttainIt) {
  std::mt19937_64 random(kSeed);
  FallbackCounters fallbacks;
  int unreachable = 0;
  for (int round = 0; round < kRounds; ++round) {
    SCOPED_TRACE(testing::Message() << "seed " << kSeed << " round " << round);
    const fabric::Topology topology = BuildTopology(MakeRandomGraph({}, random));
    ProblemOptions options;
    std::size_t ranks = 0;
    for (const auto& node : topology.nodes()) ranks += node.kind == fabric::NodeKind::kCompute;
    options.weights = MakeRandomWeights(ranks, random);
    const Result<Problem> problem = BuildProblem(topology, options);
    ASSERT_TRUE(problem.has_value()) << problem.error().message;
    const std::optional<Rational> expected = EnumerateCuts(*problem);
    const Result<Optimality> optimality = ComputeOptimality(*problem);
    ASSERT_EQ(optimality.has_value(), expected.has_value());
    if (!optimality) {
      ++unreachable;
      EXPECT_EQ(optimality.error().code, ErrorCode::kFailedPrecondition);
      continue;
    }
    ASSERT_EQ(optimality->inverse_rate, *expected);
    const Result<TreeCount> count = CountTrees(*problem, *optimality);
    ASSERT_TRUE(count.has_value()) << count.error().message;
    const Result<Forest> forest = BuildGeneralForest(*problem, *count);
    ASSERT_TRUE(forest.has_value()) << forest.error().message;
    ASSERT_EQ(FindFault(*problem, *count, *forest), "");
    Add(forest->fallbacks, fallbacks);
  }
  EXPECT_GT(unreachable, 0);
  EXPECT_LT(unreachable, kRounds / 4);
  ExpectAllFallbacksTaken(fallbacks);
  RecordProperty("exact_gammas", static_cast<int>(fallbacks.exact_gammas));
}

// Rounded capacities of one-way links may be out of balance at a node (Theorem 25 needs balance).
TEST(RandomGraphs, RefuseNumbersOfTreesWhoseCapacitiesCannotBeBalanced) {
  std::mt19937_64 random(kSeed + 2);
  int refused = 0;
  int trimmed = 0;
  for (int round = 0; round < 200; ++round) {
    SCOPED_TRACE(testing::Message() << "seed " << kSeed + 2 << " round " << round);
    const fabric::Topology topology = BuildTopology(MakeRandomGraph({.max_rate = 9}, random));
    const Result<Problem> problem = BuildProblem(topology, {});
    ASSERT_TRUE(problem.has_value()) << problem.error().message;
    const Result<Optimality> optimality = ComputeOptimality(*problem);
    if (!optimality) continue;
    for (const std::int64_t k : {1, 2, 3}) {
      const Result<TreeCount> count = CountTreesFixed(*problem, *optimality, k);
      if (count) {
        // Accepted capacities are balanced and can be packed.
        trimmed += !IsRoundedDown(*problem, *count);
        const Result<Forest> forest = BuildGeneralForest(*problem, *count);
        ASSERT_TRUE(forest.has_value()) << forest.error().message;
        ASSERT_EQ(FindFault(*problem, *count, *forest), "");
        continue;
      }
      ++refused;
      ASSERT_EQ(count.error().code, ErrorCode::kFailedPrecondition);
      EXPECT_THAT(count.error().message, testing::HasSubstr("are not balanced at every node"));
      EXPECT_THAT(count.error().message,
                  testing::HasSubstr("with " + std::to_string(k) + " trees per root"));
      // A free number of trees is always possible.
      EXPECT_TRUE(CountTrees(*problem, *optimality).has_value());
    }
  }
  EXPECT_GT(refused, 0);
  EXPECT_GT(trimmed, 0);
}

TEST(RandomGraphs, OfUpToFortyRanksPassTheVerifier) {
  std::mt19937_64 random(kSeed + 1);
  FallbackCounters fallbacks;
  int made = 0;
  for (int round = 0; round < kRounds; ++round) {
    SCOPED_TRACE(testing::Message() << "seed " << kSeed + 1 << " round " << round);
    const fabric::Topology topology =
        BuildTopology(MakeRandomGraph({.max_ranks = 40, .max_switches = 15}, random));
    ScheduleOptions options;
    options.use_structure = false;
    options.height_steps = 0;
    const Result<VerifiedSchedule> plan = MakeTreeSchedule(topology, options);
    if (!plan) {
      ASSERT_EQ(plan.error().code, ErrorCode::kFailedPrecondition) << plan.error().message;
      continue;
    }
    ++made;
    ASSERT_EQ(plan->schedule.inverse_rate, plan->schedule.bound_inverse_rate);
    Add(plan->schedule.forests[0].fallbacks, fallbacks);
  }
  EXPECT_GT(made, kRounds * 3 / 4);
  ExpectAllFallbacksTaken(fallbacks);
}

}  // namespace
}  // namespace espalier::forest
