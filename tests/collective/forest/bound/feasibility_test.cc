#include "collective/forest/bound/feasibility.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "collective/forest/problem/build_problem.h"
#include "tests/collective/forest/random_problem.h"
#include "tests/collective/forest/reference_cases.h"
#include "tests/seeds.h"

namespace espalier::forest {
namespace {

// How many units are missing on the way out of a set of nodes; 0 if there are enough.
std::int64_t MissingOut(const Problem& problem, const std::vector<std::int64_t>& capacity,
                        std::int64_t trees, std::uint32_t set) {
  std::int64_t missing = 0;
  for (std::int32_t rank = 0; rank < problem.rank_count; ++rank) {
    if ((set >> rank & 1) != 0) missing += trees * problem.weight[static_cast<std::size_t>(rank)];
  }
  for (std::size_t a = 0; a < capacity.size(); ++a) {
    const Arc& arc = problem.arcs[a];
    if ((set >> arc.tail & 1) != 0 && (set >> arc.head & 1) == 0) missing -= capacity[a];
  }
  return std::max<std::int64_t>(missing, 0);
}

TEST(SupportsTrees, AgreesWithAllCuts) {
  int possible = 0;
  int impossible = 0;
  for (const std::uint64_t seed : SeedsToTry(1, 150)) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    const RandomGraphOptions options{.max_ranks = 5, .max_switches = 4, .max_rate = 9};
    const fabric::Topology topology = BuildTopology(MakeRandomGraph(options, random));
    std::size_t compute = 0;
    for (const fabric::Node& node : topology.nodes()) {
      compute += node.kind == fabric::NodeKind::kCompute ? 1 : 0;
    }
    const auto problem = BuildProblem(topology, {.weights = MakeRandomWeights(compute, random)});
    ASSERT_TRUE(problem.has_value());
    for (int round = 0; round < 8; ++round) {
      std::vector<std::int64_t> capacity;
      for (const Arc& arc : problem->arcs) {
        const bool is_kept = random() % 8 != 0;
        capacity.push_back(is_kept ? arc.capacity * static_cast<std::int64_t>(1 + random() % 4)
                                   : 0);
      }
      const auto trees = static_cast<std::int64_t>(1 + random() % 3);
      const std::uint32_t ranks = (1U << problem->rank_count) - 1;
      bool expected = true;
      for (std::uint32_t set = 1; set < 1U << problem->node_count; ++set) {
        if ((set & ranks) == ranks) continue;
        expected = expected && MissingOut(*problem, capacity, trees, set) == 0;
      }
      EXPECT_EQ(SupportsTrees(*problem, capacity, trees), expected);
      (expected ? possible : impossible) += 1;
      // The sink side of a cut that is too small, with a rank that misses data.
      const std::vector<std::int32_t> sinks = FindNarrowCut(*problem, capacity, trees);
      ASSERT_EQ(sinks.empty(), expected);
      if (expected) continue;
      std::uint32_t sources = (1U << problem->node_count) - 1;
      for (const std::int32_t node : sinks) sources &= ~(1U << node);
      EXPECT_GT(MissingOut(*problem, capacity, trees, sources), 0);
      EXPECT_TRUE(std::ranges::any_of(sinks, [&](auto node) { return problem->IsRank(node); }));
    }
  }
  EXPECT_GT(possible, 100);
  EXPECT_GT(impossible, 100);
}

// The distance of each node from node 0, over arcs.
std::vector<int> DistancesFromFirst(const Problem& problem) {
  std::vector<int> distance(static_cast<std::size_t>(problem.node_count), 1'000);
  distance[0] = 0;
  for (int round = 0; round < problem.node_count; ++round) {
    for (const Arc& arc : problem.arcs) {
      int& head = distance[static_cast<std::size_t>(arc.head)];
      head = std::min(head, distance[static_cast<std::size_t>(arc.tail)] + 1);
    }
  }
  return distance;
}

TEST(NeighbourOrder, HasEveryRankOnceAndNearOnesFirst) {
  for (const char* name : {"ring8", "hcube3", "torus4x4", "a100_2", "mi250_2", "clos4x3s2"}) {
    SCOPED_TRACE(name);
    const Problem problem = MakeReferenceProblem(name);
    const std::vector<std::int32_t> order = NeighbourOrder(problem);
    std::vector<std::int32_t> sorted = order;
    std::ranges::sort(sorted);
    ASSERT_EQ(sorted.size(), static_cast<std::size_t>(problem.rank_count));
    for (std::int32_t rank = 0; rank < problem.rank_count; ++rank) {
      EXPECT_EQ(sorted[static_cast<std::size_t>(rank)], rank);
    }
    const std::vector<int> distance = DistancesFromFirst(problem);
    for (std::size_t i = 1; i < order.size(); ++i) {
      EXPECT_LE(distance[static_cast<std::size_t>(order[i - 1])],
                distance[static_cast<std::size_t>(order[i])]);
    }
  }
}

}  // namespace
}  // namespace espalier::forest
