#include "collective/forest/bound/tree_count.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <random>
#include <vector>

#include "collective/forest/bound/optimality.h"
#include "collective/forest/problem/build_problem.h"
#include "tests/collective/forest/random_problem.h"
#include "tests/collective/forest/reference_cases.h"
#include "tests/seeds.h"

namespace espalier::forest {
namespace {

// Whether capacities floor(scale * b) let k * weight(S) units leave every set S of nodes without
// some rank: by the definition, over all sets.
bool SupportsByCuts(const Problem& problem, const Rational& scale, std::int64_t k) {
  std::vector<std::int64_t> capacity;
  for (const Arc& arc : problem.arcs) {
    capacity.push_back(
        static_cast<std::int64_t>(scale.numerator() * arc.capacity / scale.denominator()));
  }
  const std::uint32_t all_ranks = (1U << problem.rank_count) - 1;
  for (std::uint32_t set = 1; set < 1U << problem.node_count; ++set) {
    if ((set & all_ranks) == all_ranks) continue;
    std::int64_t need = 0;
    for (std::int32_t rank = 0; rank < problem.rank_count; ++rank) {
      if ((set >> rank & 1) != 0) need += k * problem.weight[static_cast<std::size_t>(rank)];
    }
    for (std::size_t a = 0; a < capacity.size(); ++a) {
      const Arc& arc = problem.arcs[a];
      if ((set >> arc.tail & 1) != 0 && (set >> arc.head & 1) == 0) need -= capacity[a];
    }
    if (need > 0) return false;
  }
  return true;
}

// The least scale for k trees, among all j / b: every smaller one has the capacities of such a one.
Rational LeastScale(const Problem& problem, const Rational& inverse_rate, std::int64_t k) {
  std::vector<Rational> scales;
  const Rational floor = *Rational::Product(inverse_rate, Rational(k, 1));
  for (const Arc& arc : problem.arcs) {
    const Int128 first = floor.numerator() * arc.capacity / floor.denominator();
    for (Int128 j = first; j <= first + 2 + k; ++j) {
      const Rational scale(j, arc.capacity);
      if (scale >= floor) scales.push_back(scale);
    }
  }
  std::sort(scales.begin(), scales.end());
  for (const Rational& scale : scales) {
    if (SupportsByCuts(problem, scale, k)) return scale;
  }
  ADD_FAILURE() << "no scale found";
  return floor;
}

struct Case {
  Problem problem;
  Optimality optimality;
};

std::optional<Case> MakeRandom(std::mt19937_64& random) {
  const RandomGraphOptions options{.max_ranks = 5, .max_switches = 3, .max_rate = 12};
  const fabric::Topology topology = BuildTopology(MakeRandomGraph(options, random));
  auto problem = BuildProblem(topology, {});
  if (!problem) return std::nullopt;
  auto optimality = ComputeOptimality(*problem);
  if (!optimality) return std::nullopt;
  return Case{std::move(*problem), std::move(*optimality)};
}

TEST(CountTrees, IsTheFewestTreesAtTheBound) {
  for (const std::uint64_t seed : SeedsToTry(1, 60)) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    const auto made = MakeRandom(random);
    if (!made) continue;
    const auto count = CountTrees(made->problem, made->optimality);
    ASSERT_TRUE(count.has_value());
    EXPECT_EQ(count->inverse_rate, made->optimality.inverse_rate);
    EXPECT_EQ(*Rational::Quotient(count->scale, Rational(count->trees_per_weight, 1)),
              count->inverse_rate);
    EXPECT_TRUE(SupportsByCuts(made->problem, count->scale, count->trees_per_weight));
    // All capacities are whole at this scale, and at that of no smaller number of trees.
    for (std::int64_t k = 1; k <= count->trees_per_weight; ++k) {
      const Rational scale = *Rational::Product(count->inverse_rate, Rational(k, 1));
      const bool is_whole = std::ranges::all_of(made->problem.arcs, [&](const Arc& arc) {
        return Rational::Product(scale, Rational(arc.capacity, 1))->denominator() == 1;
      });
      EXPECT_EQ(is_whole, k == count->trees_per_weight) << k;
    }
  }
}

TEST(CountTreesFixed, IsTheLeastScaleByAllCuts) {
  int balanced = 0;
  for (const std::uint64_t seed : SeedsToTry(1, 40)) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    const auto made = MakeRandom(random);
    if (!made) continue;
    for (std::int64_t k = 1; k <= 4; ++k) {
      const Rational least = LeastScale(made->problem, made->optimality.inverse_rate, k);
      const auto count = CountTreesFixed(made->problem, made->optimality, k);
      if (!count) {
        EXPECT_EQ(count.error().code, ErrorCode::kFailedPrecondition);
        continue;
      }
      ++balanced;
      EXPECT_EQ(count->scale, least) << k;
      EXPECT_EQ(count->trees_per_weight, k);
      // As much enters every node as leaves it, and no arc has more than its share.
      std::vector<std::int64_t> surplus(static_cast<std::size_t>(made->problem.node_count), 0);
      for (std::size_t a = 0; a < count->capacity.size(); ++a) {
        const Arc& arc = made->problem.arcs[a];
        surplus[static_cast<std::size_t>(arc.tail)] += count->capacity[a];
        surplus[static_cast<std::size_t>(arc.head)] -= count->capacity[a];
        EXPECT_LE(Rational(count->capacity[a], arc.capacity), count->scale);
      }
      EXPECT_EQ(std::ranges::count(surplus, 0), made->problem.node_count);
    }
  }
  EXPECT_GT(balanced, 50);
}

// Both directions get one number of trees: the fewest of those whose slower forest is fastest.
TEST(CountTreesAtMost, IsTheBestOfAllNumbersForSeveralProblems) {
  int limited = 0;
  for (const std::uint64_t seed : SeedsToTry(1, 150)) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    const auto made = MakeRandom(random);
    if (!made) continue;
    const std::vector<Problem> both = {made->problem, Transpose(made->problem)};
    for (const std::size_t problems : {std::size_t{1}, std::size_t{2}}) {
      for (const std::int64_t most : {2, 5}) {
        const std::span<const Problem> some(both.data(), problems);
        const auto unlimited = CountTrees(both[0], made->optimality);
        ASSERT_TRUE(unlimited.has_value());
        const auto counts = CountTreesAtMost(some, made->optimality, most);
        if (unlimited->trees_per_weight <= most) {
          ASSERT_TRUE(counts.has_value());
          EXPECT_EQ((*counts)[0].trees_per_weight, unlimited->trees_per_weight);
          EXPECT_EQ((*counts)[0].inverse_rate, made->optimality.inverse_rate);
          continue;
        }
        std::optional<Rational> best;
        std::int64_t fewest = 0;
        for (std::int64_t k = 1; k <= most; ++k) {
          Rational slowest;
          bool is_possible = true;
          for (const Problem& problem : some) {
            const auto count = CountTreesFixed(problem, made->optimality, k);
            is_possible = is_possible && count.has_value();
            if (count) slowest = std::max(slowest, count->inverse_rate);
          }
          if (!is_possible || (best && slowest >= *best)) continue;
          best = slowest;
          fewest = k;
        }
        ASSERT_EQ(counts.has_value(), best.has_value());
        if (!best) continue;
        ++limited;
        ASSERT_EQ(counts->size(), problems);
        Rational slowest;
        for (const TreeCount& count : *counts) {
          slowest = std::max(slowest, count.inverse_rate);
          EXPECT_EQ(count.trees_per_weight, fewest);
        }
        EXPECT_EQ(slowest, *best);
      }
    }
  }
  EXPECT_GT(limited, 50);
}

TEST(CountTrees, RefuseNumbersThatMakeNoSense) {
  const Problem problem = MakeReferenceProblem("ring8");
  const auto optimality = ComputeOptimality(problem);
  ASSERT_TRUE(optimality.has_value());
  for (const std::int64_t trees : {std::int64_t{0}, std::int64_t{-1}}) {
    EXPECT_EQ(CountTreesFixed(problem, *optimality, trees).error().code,
              ErrorCode::kInvalidArgument);
    EXPECT_EQ(CountTreesAtMost(problem, *optimality, trees).error().code,
              ErrorCode::kInvalidArgument);
  }
  EXPECT_EQ(CountTreesFixed(problem, *optimality, std::int64_t{1} << 60).error().code,
            ErrorCode::kResourceExhausted);
  const Control cancelled{.cancelled = [] { return true; }};
  EXPECT_EQ(CountTreesFixed(problem, *optimality, 3, cancelled).error().code,
            ErrorCode::kUnavailable);
}

}  // namespace
}  // namespace espalier::forest
