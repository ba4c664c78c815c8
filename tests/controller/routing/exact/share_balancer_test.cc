#include "controller/routing/exact/share_balancer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

#include "controller/routing/bounds/load_bounds.h"
#include "tests/controller/routing/test_fabric.h"
#include "tests/seeds.h"

namespace espalier::controller {
namespace {

constexpr std::int64_t kAmple = 10'000'000;

// Flows over all spines, one subflow on each; those of a dead spine are spread over the others.
Assignment Spread(const Fabric& fabric, const Commodities& flows, std::mt19937& random) {
  Assignment assignment;
  assignment.Clear(flows);
  for (std::size_t i = 0; i < flows.size(); ++i) {
    std::vector<std::int32_t> usable;
    const CandidatePaths& all = fabric.view.Candidates(flows[i].source, flows[i].destination);
    for (std::size_t path = 0; path < all.size(); ++path) {
      if (fabric.view.IsUsable(all.Hops(path))) usable.push_back(static_cast<std::int32_t>(path));
    }
    std::ranges::shuffle(usable, random);
    for (std::size_t s = 0; s < flows[i].subflows; ++s) {
      assignment.paths[assignment.first[i] + s] = usable[s % usable.size()];
    }
  }
  assignment.max_load = MaxLoadWith(fabric.view, flows, {}, assignment);
  return assignment;
}

// Each leaf sends `degree` flows to leaves in turn.
Commodities Circles(std::uint32_t leaves, std::uint32_t degree, std::uint32_t subflows) {
  Commodities flows;
  for (std::uint32_t step = 0; step < degree; ++step) {
    for (std::uint32_t leaf = 0; leaf < leaves; ++leaf) {
      flows.push_back({.source = leaf,
                       .destination = (leaf + 1 + step % (leaves - 1)) % leaves,
                       .subflows = subflows});
    }
  }
  return flows;
}

void ExpectWholeFlows(const Commodities& flows, const Assignment& assignment) {
  for (std::size_t i = 0; i < flows.size(); ++i) {
    const auto shares = assignment.SharesOf(i);
    EXPECT_EQ(std::accumulate(shares.begin(), shares.end(), std::int64_t{0}), kLoadUnit);
    EXPECT_GT(std::ranges::min(shares), 0);
  }
}

TEST(BalanceShares, ComesNearTheLeastLoadWithASpineDown) {
  double worst = 0;
  for (const std::uint64_t seed : SeedsToTry(1, 60)) {
    SCOPED_TRACE(seed);
    std::mt19937 random(static_cast<std::uint32_t>(seed));
    const int spines = 3 + static_cast<int>(random() % 6);
    const auto fabric = Fabric::LeafSpine(spines, 3 + static_cast<int>(random() % 5));
    const Commodities flows =
        Circles(fabric->view.leaf_count(), static_cast<std::uint32_t>(1 + random() % 12),
                static_cast<std::uint32_t>(spines));
    fabric->FailSpine(1);
    const Assignment present = Spread(*fabric, flows, random);
    const std::vector<std::uint8_t> is_rigid(flows.size());
    const Assignment balanced = BalanceShares(fabric->view, flows, is_rigid, {}, present, kAmple);
    ExpectWholeFlows(flows, balanced);
    EXPECT_EQ(balanced.paths, present.paths);
    EXPECT_EQ(balanced.max_load, MaxLoadWith(fabric->view, flows, {}, balanced));
    EXPECT_LE(balanced.max_load, present.max_load);
    const Load bound = ComputeLowerBound(fabric->view, flows, {}, 1);
    worst = std::max(worst, balanced.max_load.Value() / bound.Value());
  }
  EXPECT_LT(worst, 1.02);
}

// Four flows have their part over the dead spine elsewhere, each on another of the other spines, so
// that each has two parts on one link. All may give up as much.
TEST(BalanceShares, SpreadsWhatMustBeShiftedOverAllFlows) {
  const auto fabric = Fabric::LeafSpine(4, 2);
  Commodities flows;
  for (int i = 0; i < 4; ++i) flows.push_back({.source = 0, .destination = 1, .subflows = 4});
  fabric->FailSpine(0);
  Assignment present;
  present.Clear(flows);
  present.paths = {1, 1, 2, 3, 1, 1, 2, 3, 2, 1, 2, 3, 3, 1, 2, 3};
  present.max_load = MaxLoadWith(fabric->view, flows, {}, present);
  const Assignment balanced =
      BalanceShares(fabric->view, flows, std::vector<std::uint8_t>(4), {}, present, kAmple);
  EXPECT_LT(balanced.max_load.Value(), 1.01 * 4 / 3);
  EXPECT_GT(static_cast<double>(std::ranges::min(balanced.shares)) / kLoadUnit, 0.15);
  EXPECT_LT(static_cast<double>(std::ranges::max(balanced.shares)) / kLoadUnit, 0.4);
}

TEST(BalanceShares, UsesLittleOfALinkWithBackgroundLoad) {
  const auto fabric = Fabric::LeafSpine(2, 2);
  const Commodities flows = {{.source = 0, .destination = 1, .subflows = 2}};
  Assignment present;
  present.Clear(flows);
  present.paths = {0, 1};
  std::vector<std::int64_t> base(fabric->view.capacities().size());
  base[fabric->view.Candidates(0, 1).Hops(0)[0]] = kLoadUnit / 2;
  const Assignment balanced =
      BalanceShares(fabric->view, flows, std::vector<std::uint8_t>(1), base, present, kAmple);
  EXPECT_NEAR(balanced.max_load.Value(), 0.75, 0.01);
  EXPECT_NEAR(static_cast<double>(balanced.shares[0]) / kLoadUnit, 0.25, 0.01);
}

TEST(BalanceShares, LeavesRigidFlowsAndThoseOfQuietLinksAlone) {
  std::mt19937 random(1);
  const auto fabric = Fabric::LeafSpine(3, 4);
  Commodities flows;
  for (int i = 0; i < 4; ++i) flows.push_back({.source = 0, .destination = 1, .subflows = 3});
  flows.push_back({.source = 2, .destination = 3, .subflows = 3});  // alone on its links
  fabric->FailSpine(0);
  const Assignment present = Spread(*fabric, flows, random);
  const std::vector<std::uint8_t> is_rigid = {1, 0, 0, 0, 0};
  const Assignment balanced = BalanceShares(fabric->view, flows, is_rigid, {}, present, kAmple);
  EXPECT_TRUE(HasSameShares(flows[0], 0, present, balanced));
  EXPECT_TRUE(HasSameShares(flows[4], 4, present, balanced));
  EXPECT_NEAR(balanced.max_load.Value(), 2, 0.02);
}

TEST(BalanceShares, KeepsToItsBudgetAndToWholeFlows) {
  std::mt19937 random(2);
  const auto fabric = Fabric::LeafSpine(4, 4);
  const Commodities flows = Circles(4, 5, 4);
  fabric->FailSpine(3);
  const Assignment present = Spread(*fabric, flows, random);
  const std::vector<std::uint8_t> is_rigid(flows.size());
  for (const std::int64_t steps : {0, 1, 7, 50}) {
    const Assignment balanced = BalanceShares(fabric->view, flows, is_rigid, {}, present, steps);
    ExpectWholeFlows(flows, balanced);
  }
  const Assignment same = BalanceShares(fabric->view, flows, is_rigid, {}, present, 0);
  EXPECT_EQ(same.max_load, present.max_load);
}

TEST(BalanceShares, TakesAssignmentsWithoutPaths) {
  const auto fabric = Fabric::LeafSpine(2, 2);
  const Commodities flows = {{.source = 0, .destination = 1, .subflows = 2},
                             {.source = 0, .destination = 0, .subflows = 2}};
  Assignment present;
  present.Clear(flows);
  const Assignment balanced =
      BalanceShares(fabric->view, flows, std::vector<std::uint8_t>(2), {}, present, kAmple);
  EXPECT_EQ(balanced.max_load, Load{});
  ExpectWholeFlows(flows, balanced);
}

}  // namespace
}  // namespace espalier::controller
