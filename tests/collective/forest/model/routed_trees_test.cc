#include "collective/forest/model/routed_trees.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "tests/seeds.h"

namespace espalier::forest {
namespace {

// Builds a forest of random trees whose logical arcs have the units that they need, in routes of
// random sizes: route i of an arc takes the hop i.
Forest RandomRoutes(std::mt19937_64& random, std::int32_t ranks, std::size_t classes) {
  Forest forest;
  forest.rank_count = ranks;
  std::map<std::pair<Rank, Rank>, std::int64_t> uses;  // by parent and child
  for (std::size_t c = 0; c < classes; ++c) {
    std::vector<Rank> order(static_cast<std::size_t>(ranks));
    std::iota(order.begin(), order.end(), Rank{0});
    std::shuffle(order.begin(), order.end(), random);
    const auto count = static_cast<std::int64_t>(1 + random() % 6);
    forest.classes.push_back({order[0], count});
    std::vector<Rank> parents(order.size(), kNoRank);
    for (std::size_t i = 1; i < order.size(); ++i) {
      parents[order[i]] = order[random() % i];
      uses[{parents[order[i]], order[i]}] += count;
    }
    forest.parents.insert(forest.parents.end(), parents.begin(), parents.end());
  }
  for (const auto& [edge, units] : uses) {
    forest.routes.AddArc(edge.first, edge.second);
    std::int32_t hop = 0;
    for (std::int64_t left = units; left > 0; ++hop) {
      const auto part = std::min<std::int64_t>(left, static_cast<std::int64_t>(1 + random() % 4));
      forest.routes.AddRoute(part, std::array{hop});
      left -= part;
    }
  }
  forest.routes.Index(ranks);
  return forest;
}

TEST(RoutedTrees, AreAllTreesAndHandOutTheUnitsOfEachArcInOrder) {
  for (const std::uint64_t seed : SeedsToTry(1, 200)) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const auto ranks = static_cast<std::int32_t>(2 + random() % 6);
    const Forest forest = RandomRoutes(random, ranks, 1 + random() % 8);
    std::vector<std::int64_t> trees(forest.classes.size(), 0);
    std::map<std::pair<std::size_t, std::size_t>, std::int64_t> taken;  // by arc and route
    std::map<std::size_t, std::vector<std::int32_t>>
        order;  // by arc: hops in the order of the visits
    VisitRoutedTrees(forest, [&](const RoutedTree& tree) {
      const std::span<const Rank> parents = forest.Parents(tree.tree_class);
      EXPECT_GT(tree.count, 0);
      EXPECT_EQ(tree.root, forest.classes[tree.tree_class].root);
      EXPECT_EQ(tree.height, ComputeHeight(parents));
      EXPECT_EQ(tree.edges.size(), parents.size() - 1);
      trees[tree.tree_class] += tree.count;
      std::vector<bool> reached(parents.size(), false);
      reached[tree.root] = true;
      for (const TreeEdge& edge : tree.edges) {
        EXPECT_EQ(edge.parent, parents[edge.child]);
        EXPECT_TRUE(reached[edge.parent]) << "a parent's own edge comes first";
        reached[edge.child] = true;
        const auto arc = static_cast<std::size_t>(forest.routes.Find(edge.parent, edge.child));
        taken[{arc, forest.routes.IndexOf(*edge.route)}] += tree.count;
        order[arc].push_back(forest.routes.Hops(*edge.route).front());
      }
      return true;
    });
    for (std::size_t c = 0; c < trees.size(); ++c) EXPECT_EQ(trees[c], forest.classes[c].count);
    for (std::size_t arc = 0; arc < forest.routes.ArcCount(); ++arc) {
      EXPECT_TRUE(std::ranges::is_sorted(order[arc]));
      for (const Route& route : forest.routes.Routes(arc)) {
        EXPECT_EQ((taken[{arc, forest.routes.IndexOf(route)}]), route.count);
      }
    }
  }
}

TEST(RoutedTrees, StopWhenVisitReturnsFalse) {
  std::mt19937_64 random(1);
  const Forest forest = RandomRoutes(random, 4, 8);
  int all = 0;
  VisitRoutedTrees(forest, [&](const RoutedTree&) { return ++all > 0; });
  ASSERT_GT(all, 8);
  int visited = 0;
  VisitRoutedTrees(forest, [&](const RoutedTree&) { return ++visited < 3; });
  EXPECT_EQ(visited, 3);
}

}  // namespace
}  // namespace espalier::forest
