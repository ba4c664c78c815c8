#include "controller/routing/model/assignment.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <numeric>
#include <random>
#include <tuple>
#include <utility>
#include <vector>

#include "controller/routing/assigner.h"
#include "tests/controller/routing/test_fabric.h"
#include "tests/seeds.h"

namespace espalier::controller {
namespace {

// As many subflows as 32 bits can number, without allocating them.
TEST(SubflowNumbersDeathTest, EndWithThe32BitRange) {
  SubflowNumbers last(kMaxTotalSubflows - 20);
  EXPECT_EQ(last.Take(16), 0xFFFF'FFFFU - 20);
  EXPECT_EQ(last.Take(4), 0xFFFF'FFFFU - 4);
  EXPECT_EQ(last.taken(), kMaxTotalSubflows);
  EXPECT_DEATH(last.Take(1), "subflows of all commodities=4294967296, at most 4294967295");
}

TEST(SubflowNumbersDeathTest, RequireOneToSixteenSubflows) {
  Fabric fabric(*fabric::BuildLeafSpine({.spines = 2, .leaves = 2, .hosts_per_leaf = 1}));
  Assigner assigner(fabric.view);
  for (const std::uint32_t subflows : {0U, kMaxSubflows + 1}) {
    const Commodities flows = {{.source = 0, .destination = 1, .subflows = subflows}};
    EXPECT_DEATH(assigner.Optimal(flows), "subflows=");
    EXPECT_DEATH(assigner.Greedy(flows), "subflows=");
  }
}

TEST(PaperOrder, GroupsByLeavesTheLargestGroupFirst) {
  for (const std::uint64_t seed : SeedsToTry(1, 50)) {
    SCOPED_TRACE(seed);
    std::mt19937 random(static_cast<std::uint32_t>(seed));
    const Commodities flows = RandomFlows(random, 4, 1 + static_cast<std::uint32_t>(seed % 7));
    std::map<std::pair<std::uint32_t, std::uint32_t>, int> sizes;
    for (const Commodity& flow : flows) ++sizes[{flow.source, flow.destination}];
    const std::vector<std::uint32_t> order = PaperOrder(flows);
    ASSERT_EQ(order.size(), flows.size());
    std::vector<bool> seen(flows.size(), false);
    for (std::size_t i = 0; i < order.size(); ++i) {
      EXPECT_FALSE(seen[order[i]]);
      seen[order[i]] = true;
      if (i == 0) continue;
      const auto key = [&](std::uint32_t flow) {
        const std::pair ends(flows[flow].source, flows[flow].destination);
        return std::tuple(-sizes[ends], ends, flow);
      };
      EXPECT_LT(key(order[i - 1]), key(order[i]));
    }
  }
  EXPECT_TRUE(PaperOrder({}).empty());
}

TEST(AssignmentOfSubflows, NumbersTheSubflowsOfEachCommodityInOrder) {
  Assignment assignment;
  assignment.paths = {5, 5, 5, 5, 5, 5, 5, 5};
  assignment.max_load = {3, 2};
  const Commodities flows = {{.subflows = 2}, {.subflows = 1}, {.subflows = 4}};
  assignment.Clear(flows);
  EXPECT_EQ(assignment.first, (std::vector<std::uint32_t>{0, 2, 3, 7}));
  EXPECT_EQ(assignment.paths, std::vector<std::int32_t>(7, kNoPath));
  EXPECT_EQ(assignment.max_load, Load{});
  EXPECT_EQ(assignment.PathsOf(2).size(), 4U);
  EXPECT_EQ(assignment.PathsOf(2).data(), assignment.paths.data() + 3);
  assignment.Clear({});
  EXPECT_EQ(assignment.first, std::vector<std::uint32_t>{0});
  EXPECT_TRUE(assignment.paths.empty());
}

// Subflows of one commodity on one path add up; a subflow without a path loads no link.
TEST(AssignmentOfSubflows, LoadsAreTheSumsOfShares) {
  auto fabric = Fabric::LeafSpine(2, 2);
  const Commodities flows = {{.source = 0, .destination = 1, .subflows = 3},
                             {.source = 0, .destination = 1, .subflows = 1},
                             {.source = 1, .destination = 1, .subflows = 1}};
  Assignment assignment;
  assignment.Clear(flows);
  assignment.paths = {0, 0, 1, kNoPath, kNoPath};
  const auto loads = ComputeLoads(fabric->view, flows, assignment);
  const auto on = [&](const char* link, bool forward) {
    return loads[fabric::DirectedLink{*fabric->topology.FindLink(link), forward}.Index()];
  };
  EXPECT_EQ(on("leaf0--spine0", true), 2 * kLoadUnit / 3);
  EXPECT_EQ(on("leaf1--spine0", false), 2 * kLoadUnit / 3);
  EXPECT_EQ(on("leaf0--spine1", true), kLoadUnit / 3);
  EXPECT_EQ(on("leaf0--spine1", false), 0);
  EXPECT_EQ(std::accumulate(loads.begin(), loads.end(), std::int64_t{0}), 2 * kLoadUnit);
}

}  // namespace
}  // namespace espalier::controller
