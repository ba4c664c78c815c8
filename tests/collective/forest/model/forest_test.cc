#include "collective/forest/model/forest.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <random>
#include <set>
#include <string_view>
#include <vector>

#include "tests/seeds.h"

namespace espalier::forest {
namespace {

TEST(RoutingTable, FindsArcsInWhateverOrderTheyCame) {
  RoutingTable table;
  table.AddArc(2, 0);
  table.AddRoute(3, std::array{7}, std::array{8, 9});
  table.AddRoute(4, std::array{5});
  table.AddArc(0, 2);
  table.AddArc(1, 0);
  table.AddRoute(1, std::array{6});
  table.Index(3);
  const std::int32_t arc = table.Find(2, 0);
  ASSERT_GE(arc, 0);
  const auto at = static_cast<std::size_t>(arc);
  EXPECT_EQ(table.From(at), 2);
  EXPECT_EQ(table.To(at), 0);
  ASSERT_EQ(table.Routes(at).size(), 2U);
  EXPECT_TRUE(std::ranges::equal(table.Hops(table.Routes(at)[0]), std::array{7, 8, 9}));
  EXPECT_TRUE(table.Routes(static_cast<std::size_t>(table.Find(0, 2))).empty());
  for (const auto& [from, to] :
       std::vector<std::pair<Rank, Rank>>{{0, 0}, {0, 1}, {2, 1}, {1, 2}}) {
    EXPECT_EQ(table.Find(from, to), -1) << from << " " << to;
  }
}

TEST(RouteCursor, TakesTheUnitsOfAnArcOneAfterAnotherAndNoMoreThanThereAre) {
  RoutingTable table;
  table.AddArc(0, 1);
  for (const std::int64_t count : {3, 1, 2}) table.AddRoute(count, std::array{0});
  table.Index(2);
  const auto counts = [](std::span<const RouteCursor::Piece> pieces) {
    std::vector<std::int64_t> all;
    for (const RouteCursor::Piece& piece : pieces) all.push_back(piece.count);
    return all;
  };
  RouteCursor cursor(table);
  EXPECT_EQ(counts(cursor.Take(0, 2)), (std::vector<std::int64_t>{2}));
  EXPECT_EQ(counts(cursor.Take(0, 3)), (std::vector<std::int64_t>{1, 1, 1}));
  EXPECT_TRUE(cursor.Take(0, 2).empty()) << "there is one left";
  RouteCursor whole(table);
  const auto pieces = whole.Take(0, 6);
  ASSERT_EQ(pieces.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(pieces[i].route, &table.Routes(0)[i]);
  EXPECT_TRUE(whole.Take(0, 1).empty());
}

TEST(Heights, AreTheLongestPathsFromTheRootWeightedByTrees) {
  for (const std::uint64_t seed : SeedsToTry(1, 100)) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    Forest forest;
    forest.rank_count = static_cast<std::int32_t>(1 + random() % 9);
    const auto ranks = static_cast<std::size_t>(forest.rank_count);
    std::int32_t highest = 0;
    std::int64_t sum = 0;
    std::int64_t trees = 0;
    for (std::size_t c = 0; c < 1 + seed % 4; ++c) {
      std::vector<Rank> parents(ranks, kNoRank);
      std::vector<std::int32_t> depth(ranks, 0);
      for (std::size_t r = 1; r < ranks; ++r) {
        parents[r] = static_cast<Rank>(random() % r);
        depth[r] = depth[parents[r]] + 1;
      }
      const std::int32_t height = *std::ranges::max_element(depth);
      EXPECT_EQ(ComputeHeight(parents), height);
      const auto count = static_cast<std::int64_t>(1 + random() % 5);
      forest.classes.push_back({0, count});
      forest.parents.insert(forest.parents.end(), parents.begin(), parents.end());
      highest = std::max(highest, height);
      sum += count * height;
      trees += count;
    }
    const Heights heights = ComputeHeights(forest);
    EXPECT_EQ(heights.max, highest);
    EXPECT_DOUBLE_EQ(heights.mean, static_cast<double>(sum) / static_cast<double>(trees));
  }
  EXPECT_EQ(ComputeHeights(Forest{}).mean, 0);
}

TEST(HeightDeathTest, ParentsFormNoCycle) {
  EXPECT_DEATH(ComputeHeight(std::vector<Rank>{kNoRank, 2, 1}), "form a cycle");
}

TEST(Method, HasANameOfItsOwn) {
  std::set<std::string_view> names;
  for (const Method method :
       {Method::kGeneral, Method::kHierarchical, Method::kTransitive, Method::kLabels}) {
    names.insert(MethodName(method));
  }
  EXPECT_EQ(names.size(), 4U);
  EXPECT_FALSE(names.contains(""));
}

}  // namespace
}  // namespace espalier::forest
