#include "collective/forest/structures/hierarchical.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "collective/forest/structures/box_transfers.h"
#include "tests/collective/forest/check_forest.h"
#include "tests/collective/forest/reference_cases.h"

namespace espalier::forest {
namespace {

struct Counted {
  Problem problem;
  TreeCount count;
};

Counted Count(const std::string& name) {
  Counted counted{MakeReferenceProblem(name), {}};
  counted.count = *CountTrees(counted.problem, *ComputeOptimality(counted.problem));
  return counted;
}

std::vector<std::string> DamagedCases() {
  std::vector<std::string> names = {"a100_2", "h100_2", "mi250_2", "clos4x4s2", "clos3x3s3"};
  for (int seed = 1; seed <= 6; ++seed) {
    for (const char* base : {"a100_2", "h100_2", "clos4x4s2"}) {
      names.push_back(std::string(base) + "+random" + std::to_string(seed));
    }
  }
  return names;
}

// Checks that a port's hops lead from the rank to its fabric switch, or back, inside the box.
void ExpectPort(const Problem& problem, const Boxes& boxes, const Port& port, Rank rank,
                bool outwards) {
  std::int32_t at = outwards ? rank : port.fabric_switch;
  for (const std::int32_t hop : port.hops) {
    const Arc& arc = problem.arcs[static_cast<std::size_t>(hop)];
    EXPECT_EQ(arc.tail, at);
    at = arc.head;
    if (at == port.fabric_switch || at == rank) continue;
    EXPECT_EQ(boxes.box_of[static_cast<std::size_t>(at)], boxes.box_of[rank]);
  }
  EXPECT_EQ(at, outwards ? port.fabric_switch : rank);
  EXPECT_EQ(boxes.box_of[static_cast<std::size_t>(port.fabric_switch)], Boxes::kFabric);
}

void ExpectTransfers(const Counted& counted, const Boxes& boxes, const BoxTransfers& made) {
  std::vector<std::int64_t> left = counted.count.capacity;
  std::map<std::pair<Rank, std::int32_t>, std::int64_t> trees;
  for (Rank root = 0; root < counted.problem.rank_count; ++root) {
    for (std::size_t i = made.begin[root]; i < made.begin[root + std::size_t{1}]; ++i) {
      const Transfer& transfer = made.transfers[i];
      EXPECT_EQ(transfer.root, root);
      EXPECT_GT(transfer.count, 0);
      EXPECT_EQ(boxes.box_of[transfer.exit], boxes.box_of[root]);
      EXPECT_EQ(boxes.box_of[transfer.entry], transfer.box);
      trees[{root, transfer.box}] += transfer.count;
      const Port& out = made.out_ports[transfer.exit][transfer.out_port];
      const Port& in = made.in_ports[transfer.entry][transfer.in_port];
      EXPECT_EQ(out.fabric_switch, in.fabric_switch);
      ExpectPort(counted.problem, boxes, out, transfer.exit, true);
      ExpectPort(counted.problem, boxes, in, transfer.entry, false);
      for (const auto& hops : {out.hops, in.hops}) {
        for (const std::int32_t hop : hops) left[static_cast<std::size_t>(hop)] -= transfer.count;
      }
    }
    for (std::int32_t box = 0; box < static_cast<std::int32_t>(boxes.ranks.size()); ++box) {
      const bool is_own = box == boxes.box_of[root];
      const std::int64_t all = counted.count.trees_per_weight * counted.problem.weight[root];
      EXPECT_EQ((trees[{root, box}]), is_own ? 0 : all) << "root " << root << " box " << box;
    }
  }
  EXPECT_EQ(made.left, left);
  EXPECT_GE(std::ranges::min(left), 0);
}

TEST(AssignTransfers, SendsEveryTreeOnceIntoEachOtherBox) {
  int planned = 0;
  for (const std::string& name : DamagedCases()) {
    const Counted counted = Count(name);
    for (const Boxes& boxes : FindBoxes(counted.problem)) {
      for (const TransferOrder order :
           {TransferOrder::kByRoot, TransferOrder::kTightestFirst, TransferOrder::kSpread}) {
        SCOPED_TRACE(testing::Message() << name << " order " << static_cast<int>(order));
        const auto made = AssignTransfers(counted.problem, counted.count, boxes, order);
        if (!made) continue;
        ++planned;
        ExpectTransfers(counted, boxes, *made);
      }
    }
  }
  EXPECT_GT(planned, 20);
}

TEST(AssignTransfers, FindsNoneWhereABoxIsTooNarrow) {
  Counted counted = Count("a100_2");
  const Boxes boxes = FindBoxes(counted.problem).front();
  for (std::size_t a = 0; a < counted.problem.arcs.size(); ++a) {
    const std::int32_t head = counted.problem.arcs[a].head;
    if (boxes.box_of[static_cast<std::size_t>(head)] == Boxes::kFabric) {
      counted.count.capacity[a] = std::min<std::int64_t>(counted.count.capacity[a], 1);
    }
  }
  counted.count.trees_per_weight *= 2;
  EXPECT_FALSE(AssignTransfers(counted.problem, counted.count, boxes, TransferOrder::kByRoot));
  EXPECT_FALSE(AssignTransfers(counted.problem, counted.count, boxes, TransferOrder::kSpread));
}

TEST(BuildHierarchical, IsSoundAndShallowWhereItApplies) {
  int built = 0;
  for (const std::string& name : DamagedCases()) {
    SCOPED_TRACE(name);
    const Counted counted = Count(name);
    const auto forest = BuildHierarchical(counted.problem, counted.count, 100'000);
    ASSERT_TRUE(forest.has_value());
    if (!forest->has_value()) continue;
    ++built;
    EXPECT_EQ((*forest)->method, Method::kHierarchical);
    EXPECT_EQ(FindFault(counted.problem, counted.count, **forest), "");
    EXPECT_LE(ComputeHeights(**forest).max, counted.problem.rank_count / 2);
  }
  EXPECT_GT(built, 8);
  // Trees have two edges if boxes have a wide switch inside.
  const Counted whole = Count("a100_4");
  EXPECT_EQ(ComputeHeights(**BuildHierarchical(whole.problem, whole.count, 100'000)).max, 2);
}

TEST(BuildHierarchical, LeavesNetworksWithoutBoxesAlone) {
  const Counted counted = Count("hcube3");
  EXPECT_FALSE((*BuildHierarchical(counted.problem, counted.count, 0)).has_value());
}

}  // namespace
}  // namespace espalier::forest
