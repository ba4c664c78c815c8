#include "collective/forest/edge_splitting/elimination_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <tuple>
#include <vector>

#include "tests/collective/forest/edge_splitting/random_split_graph.h"
#include "tests/collective/forest/reference_cases.h"
#include "tests/seeds.h"

namespace espalier::forest {
namespace {

TEST(GroupSwitches, HasEverySwitchOnceFromTheHostsUp) {
  for (const char* name : {"a100_4", "h100_2", "mi250_2", "clos4x3s2", "clos4x4s4+deadspine",
                           "a100_4+deadnic", "ring8"}) {
    SCOPED_TRACE(name);
    const Problem problem = MakeReferenceProblem(name);
    std::vector<int> degree(static_cast<std::size_t>(problem.node_count), 0);
    for (const Arc& arc : problem.arcs) {
      ++degree[static_cast<std::size_t>(arc.tail)];
      ++degree[static_cast<std::size_t>(arc.head)];
    }
    const auto place = [&](std::int32_t node) {
      const auto index = static_cast<std::size_t>(node);
      return std::tuple(problem.tier[index], static_cast<bool>(problem.in_fabric[index]));
    };
    std::vector<std::int32_t> all;
    std::vector<std::int32_t> before;
    for (const std::vector<std::int32_t>& group : GroupSwitches(problem)) {
      ASSERT_FALSE(group.empty());
      EXPECT_TRUE(std::ranges::is_sorted(group));
      const auto of = [&](std::int32_t node) { return degree[static_cast<std::size_t>(node)]; };
      const int least = std::ranges::min(group, {}, of);
      const int smallest = of(least);
      for (const std::int32_t node : group) {
        EXPECT_EQ(place(node), place(group.front()));
        EXPECT_LT(2 * of(node), 3 * std::max(smallest, 2)) << "another kind of switch";
      }
      for (const std::int32_t earlier : before) EXPECT_LE(place(earlier), place(group.front()));
      before = group;
      all.insert(all.end(), group.begin(), group.end());
    }
    std::ranges::sort(all);
    std::vector<std::int32_t> expected(
        static_cast<std::size_t>(problem.node_count - problem.rank_count));
    std::iota(expected.begin(), expected.end(), problem.rank_count);
    EXPECT_EQ(all, expected);
  }
}

TEST(ComputeComponents, AgreesWithRepeatedMerging) {
  int several = 0;
  for (const std::uint64_t seed : SeedsToTry(1, 100)) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    const auto ranks = static_cast<std::int32_t>(1 + random() % 8);
    FlowGraph graph(ranks + 2);
    for (std::size_t arc = random() % 9; arc > 0; --arc) {
      const auto from = static_cast<std::int32_t>(random() % static_cast<std::uint64_t>(ranks + 2));
      const auto to = static_cast<std::int32_t>(random() % static_cast<std::uint64_t>(ranks + 2));
      if (from != to) graph.Add(from, to, 1);
    }
    std::vector<std::int32_t> expected(static_cast<std::size_t>(ranks));
    std::iota(expected.begin(), expected.end(), 0);
    for (std::int32_t round = 0; round < ranks; ++round) {
      for (std::int32_t a = 0; a < ranks; ++a) {
        for (std::int32_t b = 0; b < ranks; ++b) {
          if (graph.Capacity(a, b) == 0) continue;
          auto& of_a = expected[static_cast<std::size_t>(a)];
          auto& of_b = expected[static_cast<std::size_t>(b)];
          of_a = of_b = std::min(of_a, of_b);
        }
      }
    }
    EXPECT_EQ(ComputeComponents(graph, ranks), expected);
    several += std::ranges::max(expected) > 0 ? 1 : 0;
  }
  EXPECT_GT(several, 20);
}

TEST(GroupSwitches, RemovesLowTiersFirst) {
  const Problem problem = MakeReferenceProblem("clos4x3s2");
  const auto groups = GroupSwitches(problem);
  std::vector<std::int32_t> tiers;
  for (const auto& group : groups) {
    for (const std::int32_t node : group)
      tiers.push_back(problem.tier[static_cast<std::size_t>(node)]);
  }
  EXPECT_EQ(tiers.size(), 6U);
  EXPECT_TRUE(std::ranges::is_sorted(tiers));
  EXPECT_LT(tiers.front(), tiers.back());
}

TEST(OrderByBox, KeepsBoxesTogether) {
  const std::vector<std::int32_t> box = {0, 1, 0, 3, 1, 3, 0};
  EXPECT_EQ(OrderByBox(box), (std::vector<std::int32_t>{0, 2, 6, 1, 4, 3, 5}));
}

TEST(ComputeComponents, JoinsRanksByArcsEitherWay) {
  FlowGraph graph(6);
  graph.Add(3, 1, 2);
  graph.Add(1, 4, 1);
  graph.Add(0, 5, 1);  // 5 is not a rank
  graph.Add(2, 5, 1);
  EXPECT_EQ(ComputeComponents(graph, 5), (std::vector<std::int32_t>{0, 1, 2, 1, 1}));
}

}  // namespace
}  // namespace espalier::forest
