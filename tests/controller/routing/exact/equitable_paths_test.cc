#include "controller/routing/exact/equitable_paths.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <vector>

#include "tests/controller/routing/test_fabric.h"
#include "tests/seeds.h"

namespace espalier::controller {
namespace {

bool Assign(Fabric& fabric, const Commodities& flows, Assignment& assignment) {
  assignment.Clear(flows);
  return EquitablePaths(fabric.view).Assign(flows, assignment);
}

// Each link of a leaf carries the floor or the ceiling of the mean over its usable links.
TEST(EquitablePaths, SpreadEachLeafEvenlyOverItsUsableSpines) {
  for (const std::uint64_t seed : SeedsToTry(1, 60)) {
    SCOPED_TRACE(seed);
    std::mt19937 random(static_cast<std::uint32_t>(seed));
    const int spines = 2 + static_cast<int>(seed % 6);
    auto fabric = Fabric::LeafSpine(spines, 5);
    const bool is_damaged = seed % 2 == 0;
    if (is_damaged) fabric->FailSpine(static_cast<int>(seed % 2));
    const std::int64_t live = spines - (is_damaged ? 1 : 0);
    const auto number = static_cast<std::uint32_t>(seed);
    const std::uint32_t subflows = 1 + number % 3;
    const Commodities flows = RandomFlows(random, 5, 1 + number % 9, subflows);
    Assignment assignment;
    ASSERT_TRUE(Assign(*fabric, flows, assignment));
    EXPECT_EQ(assignment.max_load, assignment.lower_bound);
    const auto loads = ComputeLoads(fabric->view, flows, assignment);
    EXPECT_EQ(ComputeMaxLoad(fabric->view, loads), assignment.max_load);
    std::vector<std::int64_t> sent(5);
    std::vector<std::int64_t> received(5);
    for (const Commodity& flow : flows) {
      if (flow.source == flow.destination) continue;
      sent[flow.source] += subflows;
      received[flow.destination] += subflows;
    }
    fabric->view.ForEachLeafLink([&](std::uint32_t leaf, std::uint32_t link, bool leaves_it) {
      const std::int64_t on_link = loads[link] / (kLoadUnit / subflows);
      if (fabric->view.capacities()[link] == 0) {
        EXPECT_EQ(on_link, 0);
        return;
      }
      const std::int64_t all = (leaves_it ? sent : received)[leaf];
      EXPECT_GE(on_link, all / live);
      EXPECT_LE(on_link, (all + live - 1) / live);
    });
  }
}

TEST(EquitablePaths, ApplyOnlyIfAllLeavesInUseReachTheSameSpines) {
  Assignment assignment;
  const Commodity across{.source = 0, .destination = 1};
  auto fabric = Fabric::LeafSpine(3, 3);
  EXPECT_FALSE(Assign(*fabric, {}, assignment));
  EXPECT_FALSE(
      Assign(*fabric, {across, {.source = 1, .destination = 0, .subflows = 2}}, assignment));
  EXPECT_EQ(assignment.paths, std::vector<std::int32_t>(3, kNoPath)) << "it must stay unchanged";
  fabric->Fail("leaf2--spine0");
  EXPECT_TRUE(Assign(*fabric, {across}, assignment)) << "leaf 2 is not in use";
  EXPECT_FALSE(Assign(*fabric, {across, {.source = 2, .destination = 1}}, assignment));
  // A leaf that reaches no spine is left out.
  fabric->Fail("leaf2--spine1");
  fabric->Fail("leaf2--spine2");
  ASSERT_TRUE(Assign(*fabric, {across, {.source = 2, .destination = 1}}, assignment));
  EXPECT_NE(assignment.paths[0], kNoPath);
  EXPECT_EQ(assignment.paths[1], kNoPath);
  Fabric deep(*fabric::BuildFatTree({.k = 4}));
  EXPECT_FALSE(Assign(deep, {across}, assignment));
}

TEST(EquitablePaths, ApplyOnlyToLinksOfOneRate) {
  auto spec = *fabric::BuildLeafSpine({.spines = 2, .leaves = 2, .hosts_per_leaf = 1});
  for (fabric::Link& link : spec.links) {
    if (link.id == "leaf0--spine1") link.rate = BitsPerSecond{link.rate.value / 2};
  }
  Fabric fabric(std::move(spec));
  Assignment assignment;
  EXPECT_FALSE(Assign(fabric, {{.source = 0, .destination = 1}}, assignment));
}

}  // namespace
}  // namespace espalier::controller
