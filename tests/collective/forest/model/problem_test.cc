#include "collective/forest/model/problem.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <utility>
#include <vector>

#include "collective/forest/problem/build_problem.h"
#include "tests/collective/forest/random_problem.h"
#include "tests/collective/forest/reference_cases.h"
#include "tests/seeds.h"

namespace espalier::forest {
namespace {

Problem MakeRandom(std::mt19937_64& random) {
  return *BuildProblem(BuildTopology(MakeRandomGraph({.max_rate = 50}, random)), {});
}

TEST(Problem, FindsExactlyItsArcs) {
  for (const std::uint64_t seed : SeedsToTry(1, 50)) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    const Problem problem = MakeRandom(random);
    std::map<std::pair<std::int32_t, std::int32_t>, std::int32_t> arcs;
    for (std::size_t a = 0; a < problem.arcs.size(); ++a) {
      arcs[{problem.arcs[a].tail, problem.arcs[a].head}] = static_cast<std::int32_t>(a);
    }
    EXPECT_EQ(arcs.size(), problem.arcs.size());
    for (std::int32_t tail = -1; tail <= problem.node_count; ++tail) {
      for (std::int32_t head = -1; head <= problem.node_count; ++head) {
        const auto found = arcs.find({tail, head});
        EXPECT_EQ(problem.FindArc(tail, head), found == arcs.end() ? -1 : found->second);
      }
    }
  }
}

TEST(Transpose, TurnsEveryArcWithItsLinks) {
  for (const std::uint64_t seed : SeedsToTry(1, 50)) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    Problem problem = MakeRandom(random);
    problem.multicast[0] = true;
    problem.reduce[1] = true;
    const Problem turned = Transpose(problem);
    EXPECT_EQ(turned.weight, problem.weight);
    EXPECT_EQ(turned.multicast, problem.reduce);
    EXPECT_EQ(turned.reduce, problem.multicast);
    ASSERT_EQ(turned.arcs.size(), problem.arcs.size());
    for (std::size_t a = 0; a < problem.arcs.size(); ++a) {
      const Arc& arc = problem.arcs[a];
      const std::int32_t other = turned.FindArc(arc.head, arc.tail);
      ASSERT_GE(other, 0);
      const auto o = static_cast<std::size_t>(other);
      EXPECT_EQ(turned.arcs[o].capacity, arc.capacity);
      const auto links = problem.LinksOf(a);
      const auto other_links = turned.LinksOf(o);
      ASSERT_EQ(other_links.size(), links.size());
      for (std::size_t l = 0; l < links.size(); ++l) {
        EXPECT_EQ(other_links[l].Index(), links[l].Index());
      }
    }
    EXPECT_EQ(Transpose(turned).arcs, problem.arcs);
  }
}

TEST(Problem, ConvertsBetweenUnitsAndGigabits) {
  Problem problem;
  problem.unit = BitsPerSecond{25'000'000'000};
  problem.weight = {2, 0, 5};
  EXPECT_EQ(problem.TotalWeight(), 7);
  EXPECT_EQ(problem.Gbps(Rational(3, 1)), Rational(75, 1));
  EXPECT_EQ(problem.PerGbps(Rational(3, 1)), Rational(3, 25));
  const Int128 large = Int128{1} << 120;
  EXPECT_EQ(problem.Gbps(Rational(large, 1))->numerator(), large * 25);
  EXPECT_EQ(problem.Gbps(Rational(large * 100, 1)), std::nullopt);
}

}  // namespace
}  // namespace espalier::forest
