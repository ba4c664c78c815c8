#include "collective/forest/verifier/tree_checker.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include "tests/seeds.h"

namespace espalier::forest {
namespace {

// A forest of random trees over some ranks, with all pairs in its routing table.
Forest MakeForest(std::mt19937_64& random, std::int32_t ranks, std::size_t classes) {
  Forest forest;
  forest.rank_count = ranks;
  for (std::size_t c = 0; c < classes; ++c) {
    std::vector<Rank> order(static_cast<std::size_t>(ranks));
    for (std::size_t r = 0; r < order.size(); ++r) order[r] = static_cast<Rank>(r);
    std::shuffle(order.begin(), order.end(), random);
    forest.classes.push_back({order[0], static_cast<std::int64_t>(1 + random() % 5)});
    forest.parents.resize(forest.parents.size() + order.size(), kNoRank);
    for (std::size_t i = 1; i < order.size(); ++i) {
      forest.Parents(c)[order[i]] = order[random() % i];
    }
  }
  for (std::int32_t from = 0; from < ranks; ++from) {
    for (std::int32_t to = 0; to < ranks; ++to) {
      if (from == to) continue;
      forest.routes.AddArc(static_cast<Rank>(from), static_cast<Rank>(to));
      forest.routes.AddRoute(1, std::vector<std::int32_t>{0});
    }
  }
  forest.routes.Index(ranks);
  return forest;
}

// The height of a tree; -1 if some rank does not reach the root.
int HeightOf(std::span<const Rank> parents, Rank root) {
  if (parents[root] != kNoRank) return -1;
  int height = 0;
  for (std::size_t rank = 0; rank < parents.size(); ++rank) {
    int steps = 0;
    for (std::size_t at = rank; at != root; ++steps) {
      at = parents[at];
      if (at >= parents.size() || steps > static_cast<int>(parents.size())) return -1;
    }
    height = std::max(height, steps);
  }
  return height;
}

TEST(TreeChecker, FindsTheFirstBadTreeAndTheHeightsOfGoodOnes) {
  int bad_forests = 0;
  for (const std::uint64_t seed : SeedsToTry(1, 100)) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    const auto ranks = static_cast<std::int32_t>(2 + random() % 9);
    Forest forest = MakeForest(random, ranks, 1 + random() % 7);
    for (std::size_t changes = random() % 4; changes > 0; --changes) {
      const auto any = static_cast<Rank>(random() % static_cast<std::uint64_t>(ranks + 2));
      forest.parents[random() % forest.parents.size()] = any < ranks + 1 ? any : kNoRank;
    }
    std::optional<std::size_t> first;
    double sum = 0;
    double trees = 0;
    int highest = 0;
    for (std::size_t c = 0; c < forest.classes.size(); ++c) {
      const int height = HeightOf(forest.Parents(c), forest.classes[c].root);
      if (height < 0 && !first) first = c;
      highest = std::max(highest, height);
      sum += static_cast<double>(forest.classes[c].count) * height;
      trees += static_cast<double>(forest.classes[c].count);
    }
    for (const int threads : {1, 2, 5}) {
      Heights heights;
      const auto bad = TreeChecker(forest, threads).FindBadTree(heights);
      ASSERT_EQ(bad.has_value(), first.has_value());
      if (bad) {
        EXPECT_EQ(bad->tree_class, *first);
        EXPECT_FALSE(bad->what.empty());
        continue;
      }
      EXPECT_EQ(heights.max, highest);
      EXPECT_DOUBLE_EQ(heights.mean, sum / trees);
    }
    bad_forests += first ? 1 : 0;
  }
  EXPECT_GT(bad_forests, 20);
}

// A second forest's heights never lower those of the first.
TEST(TreeChecker, KeepsTheGreaterHeights) {
  std::mt19937_64 random(3);
  const Forest forest = MakeForest(random, 5, 2);
  Heights heights{.max = 9, .mean = 8.5};
  EXPECT_FALSE(TreeChecker(forest).FindBadTree(heights).has_value());
  EXPECT_EQ(heights.max, 9);
  EXPECT_EQ(heights.mean, 8.5);
}

TEST(TreeChecker, CountsTheUsesOfEveryArc) {
  for (const std::uint64_t seed : SeedsToTry(1, 30)) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    // More ranks than a block has.
    const auto ranks = static_cast<std::int32_t>(seed % 3 == 0 ? 70 : 2 + random() % 40);
    Forest forest = MakeForest(random, ranks, 1 + random() % 6);
    // Some counts need more than 32 bits.
    if (seed % 2 == 0) forest.classes[0].count = std::int64_t{5} << 33;
    std::map<std::pair<Rank, Rank>, std::int64_t> uses;
    for (std::size_t c = 0; c < forest.classes.size(); ++c) {
      for (std::int32_t r = 0; r < ranks; ++r) {
        const Rank parent = forest.Parents(c)[static_cast<std::size_t>(r)];
        if (parent == kNoRank) continue;
        uses[{parent, static_cast<Rank>(r)}] += forest.classes[c].count;
      }
    }
    for (const int threads : {1, 4}) {
      const TreeChecker::Usage usage = TreeChecker(forest, threads).CountUses();
      EXPECT_FALSE(usage.missing.has_value());
      EXPECT_FALSE(usage.overflow);
      ASSERT_EQ(usage.uses.size(), forest.routes.ArcCount());
      for (std::size_t arc = 0; arc < usage.uses.size(); ++arc) {
        const auto found = uses.find({forest.routes.From(arc), forest.routes.To(arc)});
        EXPECT_EQ(usage.uses[arc], found == uses.end() ? 0 : found->second);
      }
    }
  }
}

TEST(TreeChecker, NamesAnEdgeWithoutAnArcAndTooManyTrees) {
  std::mt19937_64 random(5);
  Forest forest = MakeForest(random, 6, 1);
  const Rank root = forest.classes[0].root;
  const auto child = static_cast<Rank>(root == 5 ? 0 : 5);
  const Rank parent = forest.Parents(0)[child];
  RoutingTable routes;
  for (std::size_t arc = 0; arc < forest.routes.ArcCount(); ++arc) {
    if (forest.routes.From(arc) == parent && forest.routes.To(arc) == child) continue;
    routes.AddArc(forest.routes.From(arc), forest.routes.To(arc));
    routes.AddRoute(1, std::vector<std::int32_t>{0});
  }
  routes.Index(6);
  std::swap(forest.routes, routes);
  for (const int threads : {1, 3}) {
    EXPECT_EQ(TreeChecker(forest, threads).CountUses().missing, std::pair(parent, child));
  }
  std::swap(forest.routes, routes);
  forest.classes[0].count = std::numeric_limits<std::int64_t>::max();
  EXPECT_FALSE(TreeChecker(forest).CountUses().overflow);
  forest.classes.push_back(forest.classes[0]);
  const std::vector<Rank> again(forest.parents.begin(), forest.parents.end());
  forest.parents.insert(forest.parents.end(), again.begin(), again.end());
  EXPECT_TRUE(TreeChecker(forest).CountUses().overflow);
}

}  // namespace
}  // namespace espalier::forest
