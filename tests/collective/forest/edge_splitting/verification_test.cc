#include "collective/forest/edge_splitting/verification.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "tests/collective/forest/edge_splitting/random_split_graph.h"
#include "tests/seeds.h"

namespace espalier::forest {
namespace {

std::vector<std::int32_t> NeighboursOf(const SplitGraph& graph, std::int32_t node) {
  std::vector<std::int32_t> neighbours;
  for (const FlowGraph::Port& port : graph.flows().Ports(node)) neighbours.push_back(port.node);
  std::ranges::sort(neighbours);
  return neighbours;
}

// Checks the invariant by its definition, for the ranks but `except`.
bool Holds(const RandomSplitGraph& made, std::int32_t except) {
  for (std::int32_t rank = 0; rank < made.problem.rank_count; ++rank) {
    if (rank != except && DeficitOf(made.graph, rank, made.need) > 0) return false;
  }
  return true;
}

// For every pair of a node's arcs, gamma is the largest amount that leaves all flows large enough.
TEST(Verification, FindsTheLargestSplitThatKeepsAllFlows) {
  int reduced = 0;
  const std::vector<std::uint64_t> seeds = SeedsToTry(1, 120);
  for (const std::uint64_t seed : seeds) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    auto made = MakeRandomSplitGraph(random);
    if (!made) continue;
    const Control control;
    Verification verification(made->problem, made->graph, made->need, control);
    const auto node =
        static_cast<std::int32_t>(random() % static_cast<std::uint64_t>(made->problem.node_count));
    const std::vector<std::int32_t> neighbours = NeighboursOf(made->graph, node);
    std::vector<std::int32_t> ends = neighbours;
    ends.push_back(kSource);
    for (const std::int32_t from : ends) {
      for (const std::int32_t to : ends) {
        if (from == kSource && to == kSource) continue;
        const Split split{from, to,
                          std::min(made->graph.In(from, node), made->graph.Out(node, to))};
        if (split.amount == 0) continue;
        std::int64_t largest = split.amount;
        for (; largest > 0; --largest) {
          made->graph.Apply(node, from, to, largest);
          const bool holds = Holds(*made, node);
          made->graph.Apply(node, from, to, -largest);
          if (holds) break;
        }
        made->graph.Apply(node, from, to, split.amount);
        EXPECT_EQ(verification.HoldsAround(node, neighbours), largest == split.amount);
        EXPECT_EQ(verification.ReduceToGamma(node, neighbours, split), largest)
            << from << " to " << to << " at " << node;
        made->graph.Apply(node, from, to, -largest);
        reduced += largest < split.amount ? 1 : 0;
      }
    }
  }
  EXPECT_TRUE(reduced > 0 || seeds.size() == 1);
}

TEST(Verification, CountsWhatEntersARankOverItsOwnArcs) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 50; ++round) {
    auto made = MakeRandomSplitGraph(random);
    if (!made) continue;
    const Control control;
    Verification verification(made->problem, made->graph, made->need, control);
    for (std::int32_t node = 0; node < made->problem.node_count; ++node) {
      const std::int64_t in = TotalsOf(made->graph, node).in;
      EXPECT_EQ(verification.CanBeEntered(node), !made->problem.IsRank(node) || in >= made->need);
      if (!made->problem.IsRank(node)) continue;
      const std::int64_t spare = in - made->need;
      const std::int64_t taken = std::min(spare + 1, made->graph.In(kSource, node));
      made->graph.flows().AddSupply(node, -taken);
      EXPECT_EQ(verification.CanBeEntered(node), taken <= spare);
      made->graph.flows().AddSupply(node, taken);
    }
  }
}

TEST(Verification, HoldsForNothingOnceCancelled) {
  std::mt19937_64 random(3);
  auto made = MakeRandomSplitGraph(random);
  while (!made) made = MakeRandomSplitGraph(random);
  const Control control{.cancelled = [] { return true; }};
  Verification verification(made->problem, made->graph, made->need, control);
  EXPECT_FALSE(verification.HoldsAround(0, NeighboursOf(made->graph, 0)));
  EXPECT_TRUE(verification.IsCancelled());
}

}  // namespace
}  // namespace espalier::forest
