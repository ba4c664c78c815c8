#include "collective/forest/trees/box_entries.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "tests/collective/forest/trees/hand_made_forest.h"

namespace espalier::forest {
namespace {

// Arcs both ways, all wide enough.
std::vector<Arc> BothWays(const std::vector<std::pair<std::int32_t, std::int32_t>>& links) {
  std::vector<Arc> arcs;
  for (const auto& [a, b] : links) {
    arcs.push_back({a, b, 100});
    arcs.push_back({b, a, 100});
  }
  return arcs;
}

// Returns by tree and rank the hubs by which ranks are entered, after the alignment; -1 for roots.
std::vector<std::vector<std::int32_t>> Align(const HandMadeForest& made, const Boxes& boxes) {
  const auto half_routes = HalfRoutes::Find(made.problem, made.count, made.forest);
  TreeTable trees(made.problem, made.count, made.forest, *half_routes);
  const auto count_left = [&] {
    std::vector<std::int64_t> counted;
    for (std::size_t a = 0; a < made.problem.arcs.size(); ++a) {
      const bool into_rank = made.problem.IsRank(made.problem.arcs[a].head);
      if (into_rank) counted.push_back(trees.LeftOn(static_cast<std::int32_t>(a)));
    }
    return counted;
  };
  const std::vector<std::int64_t> before = count_left();
  AlignEntries(made.problem, boxes, *half_routes, trees);
  EXPECT_EQ(count_left(), before);
  std::vector<std::vector<std::int32_t>> hubs;
  for (std::uint32_t t = 0; t < trees.TreeCountOf(); ++t) {
    std::vector<std::int32_t>& of_tree = hubs.emplace_back();
    for (Rank rank = 0; static_cast<std::size_t>(rank) < trees.RankCount(); ++rank) {
      of_tree.push_back(rank == trees.RootOf(t) ? -1 : trees.InOf({t, rank}).hub);
    }
  }
  return hubs;
}

// Racks of the ranks 0 to 1 on leaf 4, and 2 to 3 on leaf 5; the spine is 6. Every tree enters the
// other rack at both ranks.
TEST(AlignEntries, LetsTreesEnterARackOnceAndRanksTakeTurns) {
  const std::vector<HandMadeTree> trees = {{0, 3, {{0, 4, 1}, {0, 4, 6, 5, 2}, {0, 4, 6, 5, 3}}},
                                           {0, 1, {{0, 4, 1}, {0, 4, 6, 5, 2}, {0, 4, 6, 5, 3}}},
                                           {1, 2, {{1, 4, 0}, {1, 4, 6, 5, 2}, {1, 4, 6, 5, 3}}},
                                           {1, 1, {{1, 4, 0}, {1, 4, 6, 5, 2}, {1, 4, 6, 5, 3}}},
                                           {2, 1, {{2, 5, 3}, {2, 5, 6, 4, 0}, {2, 5, 6, 4, 1}}}};
  HandMadeForest made =
      MakeHandMadeForest(4, {0, 0, 1, 1, -1, -1, -1},
                         BothWays({{0, 4}, {1, 4}, {2, 5}, {3, 5}, {4, 6}, {5, 6}}), trees);
  made.problem.tier = {0, 0, 0, 0, 1, 1, 2};
  const Boxes racks{{0, 0, 1, 1, 0, 1, Boxes::kFabric}, {{0, 1}, {2, 3}}, {{4}, {5}}};
  EXPECT_EQ(Align(made, racks),
            (std::vector<std::vector<std::int32_t>>{
                {-1, 4, 6, 5}, {-1, 4, 5, 6}, {4, -1, 5, 6}, {4, -1, 6, 5}, {6, 4, -1, 5}}));
}

// Two boxes of three ranks on the inner switches 6 and 7, each rank on a rail: 8, 9 or 10.
HandMadeForest MakeRails(const std::vector<HandMadeTree>& trees) {
  return MakeHandMadeForest(6, {0, 0, 0, 1, 1, 1, 0, 1, -1, -1, -1},
                            BothWays({{0, 6},
                                      {1, 6},
                                      {2, 6},
                                      {3, 7},
                                      {4, 7},
                                      {5, 7},
                                      {0, 8},
                                      {1, 9},
                                      {2, 10},
                                      {3, 8},
                                      {4, 9},
                                      {5, 10}}),
                            trees);
}
const Boxes& Rails() {
  static const Boxes boxes{{0, 0, 0, 1, 1, 1, 0, 1, Boxes::kFabric, Boxes::kFabric, Boxes::kFabric},
                           {{0, 1, 2}, {3, 4, 5}},
                           {{6}, {7}}};
  return boxes;
}
// A tree of the first box that enters the second one at a rank, over its rail.
HandMadeTree EnterAt(Rank root, Rank entry, std::int64_t count = 1) {
  HandMadeTree tree{root, count, {}};
  for (Rank rank = 0; rank < 3; ++rank) {
    if (rank != root) tree.edges.push_back({root, 6, rank});
  }
  tree.edges.push_back({entry - 3, entry + 5, entry});
  for (Rank rank = 3; rank < 6; ++rank) {
    if (rank != entry) tree.edges.push_back({entry, 7, rank});
  }
  return tree;
}

TEST(AlignEntries, ExchangesEntriesOverRailsThatRootsDoNotReach) {
  // Both trees gain.
  EXPECT_EQ(Align(MakeRails({EnterAt(0, 4), EnterAt(1, 3)}), Rails()),
            (std::vector<std::vector<std::int32_t>>{{-1, 6, 6, 8, 7, 7}, {6, -1, 6, 7, 9, 7}}));
  // The third tree would not, and trees of another size do not fit.
  for (const auto& second : {EnterAt(2, 3), EnterAt(1, 3, 2)}) {
    EXPECT_EQ(Align(MakeRails({EnterAt(0, 4), second}), Rails())[0],
              (std::vector<std::int32_t>{-1, 6, 6, 7, 9, 7}));
  }
}

// Inside a box of direct links, a rank stands for all links into it.
TEST(AlignEntries, ExchangesEntriesOfBoxesWithDirectLinks) {
  std::vector<HandMadeTree> trees = {EnterAt(0, 4), EnterAt(1, 3)};
  for (HandMadeTree& tree : trees) {
    for (std::vector<std::int32_t>& edge : tree.edges) {
      if (edge[1] == 7) edge.erase(edge.begin() + 1);
    }
  }
  HandMadeForest made = MakeHandMadeForest(
      6, {0, 0, 0, 1, 1, 1, 0, -1, -1, -1, -1},
      BothWays({{0, 6}, {1, 6}, {2, 6}, {3, 4}, {4, 5}, {3, 5}, {0, 8}, {1, 9}, {3, 8}, {4, 9}}),
      trees);
  EXPECT_EQ(Align(made, Rails()),
            (std::vector<std::vector<std::int32_t>>{{-1, 6, 6, 8, 4, 5}, {6, -1, 6, 3, 9, 5}}));
}

}  // namespace
}  // namespace espalier::forest
