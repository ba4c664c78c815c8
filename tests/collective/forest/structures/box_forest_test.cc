#include "collective/forest/structures/box_forest.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/collective/forest/trees/hand_made_forest.h"

namespace espalier::forest {
namespace {

void AddLink(std::vector<Arc>& arcs, std::int32_t a, std::int32_t b, std::int64_t capacity) {
  arcs.push_back({a, b, capacity});
  arcs.push_back({b, a, capacity});
}

Problem MakeProblem(std::int32_t ranks, const std::vector<std::int32_t>& boxes,
                    const std::vector<Arc>& arcs) {
  Problem problem = MakeHandMadeForest(ranks, boxes, arcs, {}).problem;
  const std::size_t nodes = boxes.size();
  problem.topology_node.resize(nodes);
  problem.names.resize(nodes);
  problem.multicast.resize(nodes);
  problem.reduce.resize(nodes);
  return problem;
}

std::vector<std::int64_t> CapacitiesOf(const Problem& problem) {
  std::vector<std::int64_t> capacities;
  for (const Arc& arc : problem.arcs) capacities.push_back(arc.capacity);
  return capacities;
}

// Checks that every route leads from rank to rank over arcs of the whole problem, and that these
// carry no more than they have left. Returns the trees by root.
std::vector<std::int64_t> Check(const Problem& problem, const std::vector<Rank>& box,
                                const BoxForests::Solved& solved, std::vector<std::int64_t> left) {
  const Forest& forest = *solved.forest;
  std::vector<std::int64_t> roots(box.size(), 0);
  RouteCursor cursor(forest.routes);
  for (std::size_t c = 0; c < forest.classes.size(); ++c) {
    roots[forest.classes[c].root] += forest.classes[c].count;
    for (Rank child = 0; static_cast<std::size_t>(child) < box.size(); ++child) {
      const Rank parent = forest.Parents(c)[child];
      EXPECT_EQ(parent == kNoRank, child == forest.classes[c].root);
      if (parent == kNoRank) continue;
      const std::int32_t edge = forest.routes.Find(parent, child);
      for (const auto& piece :
           cursor.Take(static_cast<std::size_t>(edge), forest.classes[c].count)) {
        std::int32_t at = box[parent];
        for (const std::int32_t hop : forest.routes.Hops(*piece.route)) {
          const auto arc = static_cast<std::size_t>(solved.arc[static_cast<std::size_t>(hop)]);
          EXPECT_EQ(problem.arcs[arc].tail, at);
          at = problem.arcs[arc].head;
          left[arc] -= piece.count;
        }
        EXPECT_EQ(at, box[child]);
      }
    }
  }
  EXPECT_GE(std::ranges::min(left), 0);
  return roots;
}

// Four boxes of two ranks: 0 and 1 on switch 8, 2 and 3 on 9, and so on. The links of the third box
// are narrower. The last box lacks a way from its second rank to the first.
TEST(BoxForests, SolvesEqualBoxesOnce) {
  std::vector<Arc> arcs;
  for (std::int32_t rank = 0; rank < 8; ++rank) {
    AddLink(arcs, rank, 8 + rank / 2, rank / 2 == 2 ? 2 : 3);
  }
  const Problem problem = MakeProblem(8, {0, 0, 1, 1, 2, 2, 3, 3, 0, 1, 2, 3}, arcs);
  const Boxes boxes{{0, 0, 1, 1, 2, 2, 3, 3, 0, 1, 2, 3},
                    {{0, 1}, {2, 3}, {4, 5}, {6, 7}},
                    {{8}, {9}, {10}, {11}}};
  const Control control;
  BoxForests forests(problem, boxes, 1'000, control);
  const std::vector<std::int64_t> roots = {3, 1, 3, 1, 3, 1, 3, 1};
  std::vector<std::int64_t> left = CapacitiesOf(problem);
  left[static_cast<std::size_t>(problem.FindArc(7, 11))] = 0;
  std::vector<BoxForests::Solved> solved;
  for (const std::int32_t box : {0, 1}) {
    const auto found = forests.Solve(box, roots, left);
    ASSERT_TRUE(found.has_value() && found->has_value());
    solved.push_back(**found);
    EXPECT_EQ(Check(problem, boxes.ranks[static_cast<std::size_t>(box)], solved.back(), left),
              (std::vector<std::int64_t>{3, 1}));
  }
  EXPECT_EQ(solved[0].forest, solved[1].forest);
  EXPECT_NE(solved[0].arc, solved[1].arc);
  EXPECT_FALSE(forests.Solve(2, roots, left)->has_value());
  EXPECT_FALSE(forests.Solve(3, roots, left)->has_value());
  // Other trees in an equal box are another problem.
  const std::vector<std::int64_t> others = {1, 2, 1, 2, 1, 2, 1, 2};
  EXPECT_EQ(Check(problem, {2, 3}, **forests.Solve(1, others, left), left),
            (std::vector<std::int64_t>{1, 2}));
  EXPECT_TRUE(forests.Solve(2, others, left)->has_value());
}

// Rings of three ranks, one way around in the first box and the other way in the second.
TEST(BoxForests, TellsTheDirectionsOfLinksApart) {
  const Problem problem = MakeProblem(
      6, {0, 0, 0, 1, 1, 1}, {{0, 1, 2}, {1, 2, 2}, {2, 0, 2}, {3, 5, 2}, {5, 4, 2}, {4, 3, 2}});
  const Boxes boxes{{0, 0, 0, 1, 1, 1}, {{0, 1, 2}, {3, 4, 5}}, {{}, {}}};
  const Control control;
  BoxForests forests(problem, boxes, 0, control);
  const std::vector<std::int64_t> roots(6, 1);
  const std::vector<std::int64_t> left = CapacitiesOf(problem);
  for (const std::int32_t box : {0, 1}) {
    const auto solved = *forests.Solve(box, roots, left);
    ASSERT_TRUE(solved.has_value());
    EXPECT_EQ(Check(problem, boxes.ranks[static_cast<std::size_t>(box)], *solved, left),
              (std::vector<std::int64_t>{1, 1, 1}));
  }
}

// The trees of a rank that is alone in its box have no edges.
TEST(BoxForests, NeedsNoLinksForASingleRank) {
  const Problem problem = MakeProblem(2, {0, 1, -1}, {{0, 2, 1}, {2, 1, 1}});
  const Boxes boxes{{0, 1, Boxes::kFabric}, {{0}, {1}}, {{}, {}}};
  const Control control;
  BoxForests forests(problem, boxes, 0, control);
  const std::vector<std::int64_t> roots = {3, 0};
  const auto first = *forests.Solve(0, roots, std::vector<std::int64_t>{0, 0});
  EXPECT_EQ(first->forest->classes, (std::vector<TreeClass>{{0, 3}}));
  const auto second = *forests.Solve(1, roots, std::vector<std::int64_t>{0, 0});
  EXPECT_TRUE(second->forest->classes.empty());
  EXPECT_TRUE(second->forest->parents.empty());
}

// Both ranks reach the switches 4 and 5 of the fabric, which no box holds, in different orders.
TEST(BoxForests, TurnsAroundInTheFabricWhereABoxIsTooNarrow) {
  std::vector<Arc> arcs;
  AddLink(arcs, 0, 3, 1);
  AddLink(arcs, 1, 3, 1);
  AddLink(arcs, 0, 5, 2);
  AddLink(arcs, 1, 4, 2);
  AddLink(arcs, 1, 5, 2);
  AddLink(arcs, 2, 4, 2);
  const Problem problem = MakeProblem(3, {0, 0, 1, 0, -1, -1}, arcs);
  const Boxes boxes{{0, 0, 1, 0, Boxes::kFabric, Boxes::kFabric}, {{0, 1}, {2}}, {{3}, {}}};
  const Control control;
  BoxForests forests(problem, boxes, 1'000, control);
  const std::vector<std::int64_t> left = CapacitiesOf(problem);
  const std::vector<std::int64_t> roots = {3, 3, 0};
  const auto solved = *forests.Solve(0, roots, left);
  ASSERT_TRUE(solved.has_value());
  EXPECT_EQ(Check(problem, boxes.ranks[0], *solved, left), (std::vector<std::int64_t>{3, 3}));
  const std::vector<std::int64_t> more = {4, 3, 0};
  EXPECT_FALSE(forests.Solve(0, more, left)->has_value());
}

}  // namespace
}  // namespace espalier::forest
