#include "collective/forest/structures/star_forest.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "tests/collective/forest/check_forest.h"
#include "tests/seeds.h"

namespace espalier::forest {
namespace {

struct Star {
  Problem problem;
  TreeCount count;
};

// Builds ranks and switches that are all joined with each other, with random capacities.
Star MakeStar(std::mt19937_64& random) {
  Star star;
  Problem& problem = star.problem;
  problem.rank_count = static_cast<std::int32_t>(2 + random() % 4);
  problem.node_count = problem.rank_count + static_cast<std::int32_t>(random() % 3);
  for (std::int32_t r = 0; r < problem.rank_count; ++r) {
    problem.weight.push_back(static_cast<std::int64_t>(random() % 3));
  }
  ++problem.weight[0];
  for (std::int32_t tail = 0; tail < problem.node_count; ++tail) {
    for (std::int32_t head = 0; head < problem.node_count; ++head) {
      if (problem.IsRank(tail) == problem.IsRank(head) || random() % 16 == 0) continue;
      problem.arcs.push_back({tail, head, static_cast<std::int64_t>(4 + random() % 12)});
      star.count.capacity.push_back(problem.arcs.back().capacity);
    }
  }
  star.count.trees_per_weight = static_cast<std::int64_t>(1 + random() % 2);
  star.count.scale = Rational(1, 1);
  return star;
}

// Whether a switch is wide enough: each rank sends its trees to all others over it and receives
// theirs.
bool IsWide(const Star& star, std::int32_t middle) {
  const Problem& problem = star.problem;
  for (std::int32_t r = 0; r < problem.rank_count; ++r) {
    std::int64_t sent = 0;
    std::int64_t received = 0;
    for (std::int32_t other = 0; other < problem.rank_count; ++other) {
      if (other == r) continue;
      const std::int64_t k = star.count.trees_per_weight;
      sent += k * problem.weight[static_cast<std::size_t>(r)];
      received += k * problem.weight[static_cast<std::size_t>(other)];
    }
    const std::int32_t out = problem.FindArc(r, middle);
    const std::int32_t in = problem.FindArc(middle, r);
    if (out < 0 || star.count.capacity[static_cast<std::size_t>(out)] < sent) return false;
    if (in < 0 || star.count.capacity[static_cast<std::size_t>(in)] < received) return false;
  }
  return true;
}

TEST(BuildStar, ExistsExactlyWhereASwitchIsWideEnough) {
  int built = 0;
  const std::vector<std::uint64_t> seeds = SeedsToTry(1, 500);
  for (const std::uint64_t seed : seeds) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    const Star star = MakeStar(random);
    bool expected = false;
    for (std::int32_t v = star.problem.rank_count; v < star.problem.node_count; ++v) {
      expected = expected || IsWide(star, v);
    }
    const auto forest = BuildStar(star.problem, star.count);
    ASSERT_EQ(forest.has_value(), expected);
    if (!forest) continue;
    ++built;
    EXPECT_EQ(FindFault(star.problem, star.count, *forest), "");
    EXPECT_EQ(ComputeHeights(*forest).max, 1);
  }
  EXPECT_TRUE((built > 50 && built < 450) || seeds.size() == 1) << built;
}

}  // namespace
}  // namespace espalier::forest
