#include "collective/forest/allreduce/tight_partition.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "collective/forest/problem/build_problem.h"
#include "tests/collective/forest/random_problem.h"
#include "tests/collective/forest/reference_cases.h"
#include "tests/seeds.h"

namespace espalier::forest {
namespace {

using Set = std::uint32_t;  // of nodes, a bit each

std::int64_t WeightOf(const Problem& problem, Set set) {
  std::int64_t weight = 0;
  for (std::int32_t r = 0; r < problem.rank_count; ++r) {
    if ((set >> r & 1) != 0) weight += problem.weight[static_cast<std::size_t>(r)];
  }
  return weight;
}

bool IsTight(const Problem& problem, const Rational& inverse_rate, Set set) {
  std::int64_t capacity = 0;
  for (const Arc& arc : problem.arcs) {
    if ((set >> arc.tail & 1) == 0 && (set >> arc.head & 1) != 0) capacity += arc.capacity;
  }
  return *Rational::Product(inverse_rate, Rational(capacity, 1)) ==
         Rational(problem.TotalWeight() - WeightOf(problem, set), 1);
}

// The partition by its definition: the smallest tight set around each rank, found by trying all
// sets, and those that meet united. Empty if a set has all the weight.
std::vector<Set> EnumerateParts(const Problem& problem, const Rational& inverse_rate) {
  std::vector<Set> parts;
  for (std::int32_t r = 0; r < problem.rank_count; ++r) {
    Set smallest = (Set{1} << problem.node_count) - 1;
    for (Set set = 1; set < Set{1} << problem.node_count; ++set) {
      if ((set >> r & 1) != 0 && IsTight(problem, inverse_rate, set)) smallest &= set;
    }
    std::erase_if(parts, [&](Set part) {
      const bool meets = (part & smallest) != 0;
      if (meets) smallest |= part;
      return meets;
    });
    parts.push_back(smallest);
  }
  const auto has_all = [&](Set part) { return WeightOf(problem, part) == problem.TotalWeight(); };
  if (std::ranges::any_of(parts, has_all)) parts.clear();
  std::ranges::sort(parts);
  return parts;
}

// One half has equal weights on balanced links; there no two tight sets cross.
Problem MakeRandomProblem(std::mt19937_64& random) {
  const fabric::Topology topology =
      BuildTopology(MakeRandomGraph({.max_ranks = 5, .max_switches = 3, .max_rate = 2}, random));
  ProblemOptions options;
  if (random() % 2 == 0) {
    for (const fabric::Link& link : topology.links()) {
      for (int direction = 0; direction < 2; ++direction) {
        options.available.push_back({static_cast<std::int64_t>(
            random() % static_cast<std::uint64_t>(link.rate.value + 1))});
      }
    }
    options.balanced = false;
    std::size_t ranks = 0;
    for (const auto& node : topology.nodes()) ranks += node.kind == fabric::NodeKind::kCompute;
    options.weights = MakeRandomWeights(ranks, random);
  }
  return *BuildProblem(topology, options);
}

TEST(FindTightPartition, EqualsTheOneFoundByTryingAllSets) {
  int divided = 0;
  int merged = 0;
  int none = 0;
  const std::vector<std::uint64_t> seeds = SeedsToTry(1, 1500);
  for (const std::uint64_t seed : seeds) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    const Problem problem = MakeRandomProblem(random);
    const auto optimality = ComputeOptimality(problem);
    if (!optimality) continue;
    const auto found = FindTightPartition(problem, *optimality);
    ASSERT_TRUE(found.has_value()) << found.error().message;
    std::vector<Set> parts;
    for (const std::vector<std::int32_t>& part : found->value_or(TightPartition()).parts) {
      EXPECT_TRUE(std::ranges::is_sorted(part));
      Set& set = parts.emplace_back(0);
      for (const std::int32_t node : part) set |= Set{1} << node;
    }
    std::ranges::sort(parts);
    EXPECT_EQ(parts, EnumerateParts(problem, optimality->inverse_rate));
    EXPECT_NE(parts.size(), 1U);
    none += found->has_value() ? 0 : 1;
    divided += static_cast<std::int32_t>(parts.size()) == problem.rank_count ? 1 : 0;
    merged += found->has_value() && static_cast<std::int32_t>(parts.size()) < problem.rank_count;
  }
  EXPECT_TRUE((none > 100 && divided > 100 && merged > 5) || seeds.size() == 1)
      << none << " " << divided << " " << merged;
}

TEST(FindTightPartition, RefusesProductsOfMoreThan63BitsAndEndsWhenCancelled) {
  const Problem problem = MakeReferenceProblem("ring8");
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  for (const Rational& inverse_rate :
       {Rational(Int128{kMost} + 1, 1), Rational(1, Int128{kMost} + 1), Rational(kMost / 8, 1),
        Rational(1, kMost / 7)}) {
    const auto found = FindTightPartition(problem, {inverse_rate, {}});
    ASSERT_FALSE(found.has_value()) << inverse_rate.ToString();
    EXPECT_EQ(found.error().code, ErrorCode::kResourceExhausted);
    EXPECT_EQ(found.error().message,
              "exact products of the bandwidths exceed 63 bits (give bandwidths with fewer "
              "digits)");
  }
  const Optimality optimality = *ComputeOptimality(problem);
  std::vector<double> progress;
  const Control control{.cancelled = [&] { return progress.size() == 3; },
                        .progress =
                            [&](std::string_view stage, double done) {
                              EXPECT_EQ(stage, "prove");
                              progress.push_back(done);
                            }};
  EXPECT_EQ(FindTightPartition(problem, optimality, control).error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(progress, testing::ElementsAre(0, 0.125, 0.25));
}

}  // namespace
}  // namespace espalier::forest
