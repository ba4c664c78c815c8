#include "collective/forest/edge_splitting/split_graph.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "tests/collective/forest/edge_splitting/random_split_graph.h"
#include "tests/seeds.h"

namespace espalier::forest {
namespace {

TEST(SplitGraph, BalancesEveryNodeTogetherWithTheSource) {
  for (const std::uint64_t seed : SeedsToTry(1, 200)) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    const auto made = MakeRandomSplitGraph(random);
    if (!made) continue;
    std::int64_t supply = 0;
    std::int64_t returned = 0;
    for (std::int32_t node = 0; node < made->problem.node_count; ++node) {
      const NodeTotals totals = TotalsOf(made->graph, node);
      EXPECT_EQ(totals.in, totals.out) << "node " << node;
      supply += made->graph.In(kSource, node);
      returned += made->graph.Out(node, kSource);
    }
    EXPECT_EQ(supply, made->need);
    EXPECT_EQ(returned, made->need);
  }
}

TEST(SplitGraph, SplitsKeepTheBalanceAndAreUndone) {
  for (const std::uint64_t seed : SeedsToTry(1, 200)) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    auto made = MakeRandomSplitGraph(random);
    if (!made) continue;
    const std::vector<std::vector<std::int64_t>> before = MatrixOf(made->graph);
    Removal removal{
        static_cast<std::int32_t>(random() % static_cast<std::uint64_t>(made->problem.node_count)),
        {}};
    for (int tries = 0; tries < 30; ++tries) {
      const auto pick = [&] {
        return static_cast<std::int32_t>(random() %
                                         static_cast<std::uint64_t>(made->problem.node_count + 1)) -
               1;
      };
      const std::int32_t from = pick();
      const std::int32_t to = pick();
      if (from == removal.node || to == removal.node || (from == kSource && to == kSource))
        continue;
      const std::int64_t most =
          std::min(made->graph.In(from, removal.node), made->graph.Out(removal.node, to));
      if (most == 0) continue;
      const std::int64_t amount =
          1 + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(most));
      removal.splits.push_back({from, to, amount});
      const bool joins = from != to && to != kSource;
      const std::int64_t direct = joins ? made->graph.In(from, to) : 0;
      made->graph.Apply(removal.node, from, to, amount);
      if (joins) {
        EXPECT_EQ(made->graph.In(from, to), direct + amount);
      }
      for (std::int32_t node = 0; node < made->problem.node_count; ++node) {
        const NodeTotals totals = TotalsOf(made->graph, node);
        ASSERT_EQ(totals.in, totals.out) << "node " << node;
      }
    }
    made->graph.Undo(removal);
    EXPECT_EQ(MatrixOf(made->graph), before);
    made->graph.Apply(removal);
    made->graph.Undo(removal);
    EXPECT_EQ(MatrixOf(made->graph), before);
  }
}

}  // namespace
}  // namespace espalier::forest
