#include "collective/forest/structures/box_transfers.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/collective/forest/trees/hand_made_forest.h"

namespace espalier::forest {
namespace {

using testing::ElementsAre;

// Two boxes of two ranks, 0 to 1 and 2 to 3, each rank on both switches of the fabric, 4 and 5.
HandMadeForest MakePair(std::int64_t capacity) {
  std::vector<Arc> arcs;
  for (std::int32_t rank = 0; rank < 4; ++rank) {
    for (const std::int32_t fabric_switch : {4, 5}) {
      arcs.push_back({rank, fabric_switch, capacity});
      arcs.push_back({fabric_switch, rank, capacity});
    }
  }
  return MakeHandMadeForest(4, {0, 0, 1, 1, -1, -1}, arcs, {});
}
const Boxes& PairOfBoxes() {
  static const Boxes boxes{
      {0, 0, 1, 1, Boxes::kFabric, Boxes::kFabric}, {{0, 1}, {2, 3}}, {{}, {}}};
  return boxes;
}

// "ROOT: COUNT from EXIT over SWITCH to ENTRY"
std::vector<std::string> Describe(const std::optional<BoxTransfers>& made) {
  std::vector<std::string> lines;
  if (!made) return lines;
  for (const Transfer& transfer : made->transfers) {
    lines.push_back(fmt::format(
        "{}: {} from {} over {} to {}", transfer.root, transfer.count, transfer.exit,
        made->out_ports[transfer.exit][transfer.out_port].fabric_switch, transfer.entry));
  }
  return lines;
}

TEST(AssignTransfers, KeepsToTheRanksIndexAndTakesSwitchesInTurn) {
  HandMadeForest made = MakePair(1);
  EXPECT_THAT(
      Describe(AssignTransfers(made.problem, made.count, PairOfBoxes(), TransferOrder::kByRoot)),
      ElementsAre("0: 1 from 0 over 4 to 2", "1: 1 from 1 over 5 to 3", "2: 1 from 2 over 4 to 0",
                  "3: 1 from 3 over 5 to 1"));
}

// Only what does not fit at the same index enters elsewhere, then leaves elsewhere.
TEST(AssignTransfers, UsesOtherEntriesThenOtherExits) {
  HandMadeForest made = MakePair(1);
  made.problem.weight = {3, 0, 0, 0};
  made.count.capacity[static_cast<std::size_t>(made.problem.FindArc(5, 2))] = 0;
  const auto transfers =
      AssignTransfers(made.problem, made.count, PairOfBoxes(), TransferOrder::kByRoot);
  EXPECT_THAT(Describe(transfers), ElementsAre("0: 1 from 0 over 4 to 2", "0: 1 from 0 over 5 to 3",
                                               "0: 1 from 1 over 4 to 3"));
  // An arc without capacity makes no port.
  ASSERT_EQ(transfers->in_ports[2].size(), 1U);
  EXPECT_EQ(transfers->in_ports[2][0].fabric_switch, 4);
  made.problem.weight = {4, 0, 0, 0};
  EXPECT_FALSE(AssignTransfers(made.problem, made.count, PairOfBoxes(), TransferOrder::kByRoot));
}

// Another exit prefers the entry of its own index.
TEST(AssignTransfers, KeepsToTheIndexOfTheExit) {
  HandMadeForest made = MakePair(1);
  made.problem.weight = {3, 0, 0, 0};
  for (std::size_t a = 0; a < made.problem.arcs.size(); ++a) {
    if (made.problem.IsRank(made.problem.arcs[a].head)) made.count.capacity[a] = 2;
  }
  EXPECT_THAT(
      Describe(AssignTransfers(made.problem, made.count, PairOfBoxes(), TransferOrder::kByRoot)),
      ElementsAre("0: 1 from 0 over 4 to 2", "0: 1 from 0 over 5 to 2", "0: 1 from 1 over 4 to 3"));
}

// Three boxes of one rank. The ranks 0 and 1 enter the third box over the switches 3 and 4, in the
// order in which they are served; rank 1 has the narrower links.
TEST(AssignTransfers, ServesTheTightestBoxesFirstWhereAskedTo) {
  std::vector<Arc> arcs;
  for (std::int32_t rank = 0; rank < 3; ++rank) {
    for (const std::int32_t fabric_switch : {3, 4}) {
      arcs.push_back({rank, fabric_switch, rank == 0 ? 9 : 2});
      arcs.push_back({fabric_switch, rank, rank == 2 ? 1 : 9});
    }
  }
  HandMadeForest made = MakeHandMadeForest(3, {0, 1, 2, -1, -1}, arcs, {});
  made.problem.weight = {1, 1, 0};
  const Boxes boxes{{0, 1, 2, Boxes::kFabric, Boxes::kFabric}, {{0}, {1}, {2}}, {{}, {}, {}}};
  EXPECT_THAT(Describe(AssignTransfers(made.problem, made.count, boxes, TransferOrder::kByRoot)),
              ElementsAre("0: 1 from 0 over 3 to 1", "0: 1 from 0 over 3 to 2",
                          "1: 1 from 1 over 4 to 2", "1: 1 from 1 over 3 to 0"));
  for (const TransferOrder order : {TransferOrder::kTightestFirst, TransferOrder::kSpread}) {
    EXPECT_THAT(Describe(AssignTransfers(made.problem, made.count, boxes, order)),
                ElementsAre("0: 1 from 0 over 3 to 1", "0: 1 from 0 over 4 to 2",
                            "1: 1 from 1 over 3 to 0", "1: 1 from 1 over 3 to 2"));
  }
}

// Five trees to two ranks: two, two and the last one.
TEST(AssignTransfers, SpreadsTheTreesOverTheRanksOfABox) {
  HandMadeForest made = MakePair(10);
  made.problem.weight = {5, 0, 0, 0};
  for (const std::int32_t rank : {2, 3}) {
    made.count.capacity[static_cast<std::size_t>(made.problem.FindArc(5, rank))] = 0;
  }
  EXPECT_THAT(
      Describe(AssignTransfers(made.problem, made.count, PairOfBoxes(), TransferOrder::kSpread)),
      ElementsAre("0: 2 from 0 over 4 to 2", "0: 2 from 0 over 4 to 3", "0: 1 from 0 over 4 to 2"));
  EXPECT_THAT(
      Describe(AssignTransfers(made.problem, made.count, PairOfBoxes(), TransferOrder::kByRoot)),
      ElementsAre("0: 5 from 0 over 4 to 2"));
}

// A port is routable if no switch of the fabric on it is lower than one before; those of a host do
// not count.
TEST(AssignTransfers, KnowsWhichPortsSwitchesWouldTake) {
  struct Case {
    bool inner_in_fabric;
    std::int32_t inner_tier;
    bool routable;
  };
  for (const Case& c : {Case{true, 1, true}, {true, 2, true}, {true, 3, false}, {false, 3, true}}) {
    std::vector<Arc> arcs;
    for (const auto& [a, b] : {std::pair(0, 2), {1, 3}, {2, 4}, {3, 4}}) {
      arcs.push_back({a, b, 1});
      arcs.push_back({b, a, 1});
    }
    HandMadeForest made = MakeHandMadeForest(2, {0, 1, 0, 1, -1}, arcs, {});
    made.problem.in_fabric = {false, false, c.inner_in_fabric, c.inner_in_fabric, true};
    made.problem.tier = {0, 0, c.inner_tier, c.inner_tier, 2};
    const Boxes boxes{{0, 1, 0, 1, Boxes::kFabric}, {{0}, {1}}, {{2}, {3}}};
    const auto transfers = AssignTransfers(made.problem, made.count, boxes, TransferOrder::kByRoot);
    ASSERT_TRUE(transfers.has_value());
    for (const Rank rank : std::vector<Rank>{0, 1}) {
      EXPECT_EQ(transfers->out_ports[rank].at(0).routable, c.routable) << c.inner_tier;
      EXPECT_EQ(transfers->in_ports[rank].at(0).routable, c.routable) << c.inner_tier;
    }
  }
}

}  // namespace
}  // namespace espalier::forest
