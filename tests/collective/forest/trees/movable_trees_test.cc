#include "collective/forest/trees/movable_trees.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "tests/collective/forest/check_forest.h"
#include "tests/collective/forest/random_forest.h"
#include "tests/seeds.h"

namespace espalier::forest {
namespace {

using Edge = MovableTrees::Edge;

class Model {
 public:
  Model(const RawForest& raw, MovableTrees& trees) : raw_(raw), trees_(trees) {}

  std::int32_t DepthOf(std::uint32_t tree, Rank rank) const {
    std::int32_t depth = 0;
    for (; rank != trees_.RootOf(tree); ++depth) rank = trees_.ParentOf({tree, rank});
    return depth;
  }

  bool IsBelow(Edge edge, Rank rank) const {
    while (rank != edge.child && rank != trees_.RootOf(edge.tree)) {
      rank = trees_.ParentOf({edge.tree, rank});
    }
    return rank == edge.child;
  }

  double CostOf(Edge edge, Rank parent) const {
    const std::int32_t shift = DepthOf(edge.tree, parent) + 1 - DepthOf(edge.tree, edge.child);
    double cost = 0;
    for (Rank rank = 0; rank < raw_.problem.rank_count; ++rank) {
      if (!IsBelow(edge, rank)) continue;
      const std::int32_t depth = DepthOf(edge.tree, rank);
      cost += std::pow(3.0, depth + shift) - std::pow(3.0, depth);
    }
    return cost;
  }

  // Checks depths, heights and remaining capacities, each recomputed from the parents and feeders
  // alone.
  void ExpectConsistent() const {
    std::vector<std::int64_t> left = raw_.count.capacity;
    for (std::uint32_t t = 0; t < trees_.TreeCountOf(); ++t) {
      std::int32_t height = 0;
      for (Rank rank = 0; rank < raw_.problem.rank_count; ++rank) {
        const std::int32_t depth = DepthOf(t, rank);
        ASSERT_EQ(trees_.DepthOf(t, rank), depth);
        height = std::max(height, depth);
        if (rank == trees_.RootOf(t)) continue;
        ASSERT_EQ(trees_.FeederOf({t, rank}).from, trees_.ParentOf({t, rank}));
        for (const std::int32_t hop : trees_.FeederOf({t, rank}).hops) {
          left[static_cast<std::size_t>(hop)] -= trees_.CountOf(t);
        }
      }
      ASSERT_EQ(trees_.HeightOf(t), height);
      ASSERT_EQ(DepthOf(t, trees_.DeepestOf(t)), height);
    }
    for (std::size_t a = 0; a < left.size(); ++a) {
      ASSERT_EQ(trees_.LeftOn(static_cast<std::int32_t>(a)), left[a]);
      ASSERT_GE(left[a], 0);
    }
  }

 private:
  const RawForest& raw_;
  MovableTrees& trees_;
};

// Returns a random edge of a random tree; none if the tree has only its root.
Edge PickEdge(const RawForest& raw, const MovableTrees& trees, std::mt19937_64& random) {
  const auto tree = static_cast<std::uint32_t>(random() % trees.TreeCountOf());
  Rank child = trees.RootOf(tree);
  while (child == trees.RootOf(tree)) {
    child = static_cast<Rank>(random() % static_cast<std::uint64_t>(raw.problem.rank_count));
  }
  return {tree, child};
}

TEST(MovableTrees, StaySoundThroughRandomMoves) {
  int moves = 0;
  const std::vector<std::uint64_t> seeds = SeedsToTry(1, 100);
  for (const std::uint64_t seed : seeds) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    const auto raw = MakeRandomRawForest(random);
    if (!raw) continue;
    const auto feeders = FindIncomingRoutes(raw->problem, raw->count, raw->forest);
    ASSERT_TRUE(feeders.has_value());
    MovableTrees trees(raw->problem, raw->count, raw->forest, *feeders);
    const Model model(*raw, trees);
    model.ExpectConsistent();
    for (int step = 0; step < 60; ++step) {
      const Edge edge = PickEdge(*raw, trees, random);
      if (trees.CountOf(edge.tree) > 1 && trees.TreeCountOf() < 200 && random() % 4 == 0) {
        const std::int64_t count = trees.CountOf(edge.tree);
        const std::uint32_t rest = trees.Split(edge.tree, 1);
        EXPECT_EQ(trees.CountOf(edge.tree), 1);
        EXPECT_EQ(trees.CountOf(rest), count - 1);
      }
      const std::vector<IncomingRoute>& ways = feeders->into[edge.child];
      const std::size_t way = random() % ways.size();
      const bool below = model.IsBelow(edge, ways[way].from);
      EXPECT_EQ(trees.IsBelow(edge, ways[way].from), below);
      if (below) continue;
      EXPECT_EQ(trees.CostOf(edge, ways[way].from), model.CostOf(edge, ways[way].from));
      const auto old = static_cast<std::size_t>(&trees.FeederOf(edge) - ways.data());
      trees.Release(edge);
      const std::int32_t blocked = trees.Blocked(edge.child, way, trees.CountOf(edge.tree));
      if (blocked >= 0) {
        EXPECT_LT(trees.LeftOn(blocked), trees.CountOf(edge.tree));
        trees.Take(edge, old);
      } else {
        trees.Move(edge, way);
        ++moves;
      }
      model.ExpectConsistent();
    }
    const Forest collected = trees.Collect(raw->forest);
    EXPECT_EQ(FindFault(raw->problem, raw->count, collected), "");
  }
  EXPECT_TRUE(moves > 0 || seeds.size() == 1);
}

TEST(MovableTrees, FindsTheUsersOfAnArc) {
  for (const std::uint64_t seed : SeedsToTry(1, 60)) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    const auto raw = MakeRandomRawForest(random);
    if (!raw) continue;
    const auto feeders = FindIncomingRoutes(raw->problem, raw->count, raw->forest);
    MovableTrees trees(raw->problem, raw->count, raw->forest, *feeders);
    for (std::size_t a = 0; a < raw->problem.arcs.size(); ++a) {
      const auto arc = static_cast<std::int32_t>(a);
      const Arc& ends = raw->problem.arcs[a];
      if (!raw->problem.IsRank(ends.head) && !raw->problem.IsRank(ends.tail)) continue;
      std::vector<std::pair<std::uint32_t, Rank>> expected;
      for (std::uint32_t t = 0; t < trees.TreeCountOf(); ++t) {
        for (Rank rank = 0; rank < raw->problem.rank_count; ++rank) {
          if (rank == trees.RootOf(t)) continue;
          const auto& hops = trees.FeederOf({t, rank}).hops;
          if (std::ranges::find(hops, arc) != hops.end()) expected.emplace_back(t, rank);
        }
      }
      std::vector<std::pair<std::uint32_t, Rank>> found;
      const auto first = static_cast<std::uint32_t>(random() % trees.TreeCountOf());
      trees.VisitUsers(arc, first, [&](Edge edge) {
        found.emplace_back(edge.tree, edge.child);
        return false;
      });
      EXPECT_TRUE(found.empty() || expected.empty() || found.front().first >= first ||
                  expected.back().first < first);
      std::ranges::sort(found);
      EXPECT_EQ(found, expected);
    }
  }
}

}  // namespace
}  // namespace espalier::forest
