#include "controller/routing/repair/ejection_search.h"

#include <gtest/gtest.h>

#include <random>

#include "controller/routing/assigner.h"
#include "controller/routing/bounds/load_bounds.h"
#include "controller/routing/exact/staged_paths.h"
#include "tests/common/fabric/clos_shape.h"
#include "tests/controller/routing/clos_checker.h"
#include "tests/seeds.h"

namespace espalier::controller {
namespace {

using fabric::ClosShape;

// A permutation of the hosts, of which each leaf has `hosts`, without some of its flows.
Commodities Permutation(std::mt19937& random, std::uint32_t leaves, std::uint32_t hosts,
                        std::uint32_t percent) {
  Commodities flows;
  for (const Commodity& flow : RandomFlows(random, leaves, hosts)) {
    if (random() % 100 < percent) flows.push_back(flow);
  }
  return flows;
}

// Takes out flows until the bound is one flow a link.
void Thin(Fabric& fabric, Commodities& flows) {
  while (ComputeLowerBound(fabric.view, flows) > Load{1, 1}) flows.pop_back();
}

TEST(EjectionSearch, MeetsTheBoundWithDeadLinks) {
  int met = 0;
  int rounds = 0;
  for (const auto seed : SeedsToTry(1, 60)) {
    SCOPED_TRACE(seed);
    std::mt19937 random(static_cast<std::uint32_t>(seed));
    // Eight pods of four leaves, four planes of four cores; every other seed has four tiers.
    ClosShape shape{.children = {4, 8}, .widths = {4, 4}};
    if (seed % 2 == 0) shape = {.children = {3, 3, 4}, .widths = {3, 3, 3}};
    Fabric fabric(shape.Build());
    fabric.FailSome(random, 2);
    const auto hosts = static_cast<std::uint32_t>(shape.widths.front());
    Commodities flows = Permutation(random, fabric.view.leaf_count(), hosts, 90);
    if (seed % 3 != 0) Thin(fabric, flows);
    Assigner assigner(fabric.view);
    const Load greedy = assigner.Greedy(flows).max_load;
    const Assignment& result = assigner.Optimal(flows);
    const ClosChecker checker(fabric);
    const auto units = checker.Recount(flows, result);
    ASSERT_TRUE(units.has_value());
    EXPECT_EQ(result.max_load, checker.ToLoad(checker.MaxOf(*units)));
    EXPECT_LE(result.max_load, greedy);
    ++rounds;
    if (result.max_load != result.lower_bound) continue;
    EXPECT_NE(result.proof, Proof::kNone);
    ++met;
  }
  EXPECT_GE(10 * met, 9 * rounds);
}

TEST(EjectionSearch, MovesOnlyWhatIsDisplacedIfThereIsRoom) {
  Fabric fabric(ClosShape{.children = {4, 4}, .widths = {4, 4}}.Build());
  std::mt19937 random(3);
  const Commodities flows = RandomFlows(random, 16, 4);
  Assigner assigner(fabric.view);
  const std::vector<std::int32_t> before = assigner.Optimal(flows).paths;
  const fabric::FoldedClos& clos = *fabric.view.folded_clos();
  const std::uint32_t dead = clos.UpLink(clos.blocks[0], 1);  // leaf 0 to plane 1
  fabric.topology.SetLinkState(fabric::DirectedLink::FromIndex(dead).link,
                               fabric::LinkState::kDown);
  fabric.view.Refresh();
  Assignment result;
  result.Clear(flows);
  result.paths = before;
  EjectionSearch search(fabric.view);
  std::int64_t budget = 100'000;
  ASSERT_TRUE(search.Repair(flows, Load{2, 1}, {}, budget, result));
  EXPECT_GT(budget, 99'000);
  int moved = 0;
  for (std::size_t i = 0; i < flows.size(); ++i) moved += result.paths[i] != before[i] ? 1 : 0;
  EXPECT_GE(moved, 1);
  EXPECT_LE(moved, 2);  // one flow up and one down
  const auto units = ClosChecker(fabric).Recount(flows, result);
  ASSERT_TRUE(units.has_value());
  EXPECT_FALSE(search.Repair(flows, Load{1, 1}, {}, budget, result)) << "four flows on three links";
  EXPECT_LT(budget, 0);
}

// A dead aggregation switch at 90 % of what fits: without chains this takes thousands of steps.
TEST(EjectionSearch, NeedsFewStepsAsChainsMakeRoom) {
  for (const auto seed : SeedsToTry(1, 3)) {
    SCOPED_TRACE(seed);
    std::mt19937 random(static_cast<std::uint32_t>(seed));
    Fabric fabric(ClosShape{.children = {8, 16}, .widths = {8, 8}}.Build());
    const fabric::FoldedClos& clos = *fabric.view.folded_clos();
    for (std::uint32_t leaf = 0; leaf < 8; ++leaf) {  // of the first pod
      const auto link = fabric::DirectedLink::FromIndex(clos.UpLink(clos.blocks[leaf], 0)).link;
      fabric.topology.SetLinkState(link, fabric::LinkState::kDown);
    }
    Commodities flows = Permutation(random, 128, 8, 90);
    std::vector<int> out(128);
    std::vector<int> in(128);
    std::erase_if(flows, [&](const Commodity& flow) {
      const auto most = [](std::uint32_t leaf) { return leaf < 8 ? 7 : 8; };
      if (out[flow.source] == most(flow.source)) return true;
      if (in[flow.destination] == most(flow.destination)) return true;
      ++out[flow.source];
      ++in[flow.destination];
      return false;
    });
    Assignment result;
    result.Clear(flows);
    StagedPaths staged(fabric.view);
    ASSERT_TRUE(staged.AssignIdeally(flows, result));
    fabric.view.Refresh();
    EjectionSearch search(fabric.view);
    std::int64_t budget = 20'000;
    ASSERT_TRUE(search.Repair(flows, Load{1, 1}, {}, budget, result));
    const ClosChecker checker(fabric);
    const auto units = checker.Recount(flows, result);
    ASSERT_TRUE(units.has_value());
    EXPECT_EQ(checker.ToLoad(checker.MaxOf(*units)), (Load{1, 1}));
  }
}

TEST(EjectionSearch, LeavesRoomForBaseLoads) {
  Fabric fabric(ClosShape{.children = {2, 2}, .widths = {2, 2}}.Build());
  const fabric::FoldedClos& clos = *fabric.view.folded_clos();
  std::vector<std::int64_t> base(fabric.view.capacities().size());
  base[clos.UpLink(clos.blocks[0], 0)] = kLoadUnit / 2;
  const Commodities flows = {{.source = 0, .destination = 2}, {.source = 1, .destination = 3}};
  Assigner assigner(fabric.view);
  const Assignment& result = assigner.Optimal(flows, {.base_loads = base});
  EXPECT_EQ(result.max_load, (Load{1, 1}));
  const auto units = ClosChecker(fabric).Recount(flows, result);
  ASSERT_TRUE(units.has_value());
  EXPECT_EQ((*units)[clos.UpLink(clos.blocks[0], 0)], 0);
}

TEST(LimitedLinks, UndoRestoresPathsAndLoads) {
  Fabric fabric(ClosShape{.children = {2, 3}, .widths = {2, 2}}.Build());
  std::mt19937 random(7);
  const Commodities flows = RandomFlows(random, 6, 3);
  LimitedLinks links(fabric.view);
  links.Reset(flows, Load{3, 1}, {});
  std::vector<std::uint32_t> crossing;
  for (std::uint32_t flow = 0; flow < flows.size(); ++flow) {
    if (flows[flow].source == flows[flow].destination) continue;
    crossing.push_back(flow);
    links.Place(flow, 0);
  }
  const std::vector<std::int64_t> loads(links.loads().begin(), links.loads().end());
  const std::size_t mark = links.Mark();
  for (int change = 0; change < 200; ++change) {
    const std::uint32_t flow = crossing[random() % crossing.size()];
    if (links.PathOf(flow) == kNoPath) {
      links.Place(flow, static_cast<std::int32_t>(random() % 2));
    } else {
      links.Remove(flow);
    }
  }
  links.Undo(mark);
  EXPECT_TRUE(std::ranges::equal(links.loads(), loads));
  for (const std::uint32_t flow : crossing) EXPECT_EQ(links.PathOf(flow), 0);
}

}  // namespace
}  // namespace espalier::controller
