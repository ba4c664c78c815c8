#include "controller/routing/bounds/load_bounds.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <random>
#include <span>
#include <vector>

#include "tests/controller/routing/test_fabric.h"
#include "tests/seeds.h"

namespace espalier::controller {
namespace {

TEST(LoadBounds, RoundsUpToASumOfShares) {
  auto fabric = Fabric::LeafSpine(4, 2);
  const std::vector<std::int64_t> four(4, 100'000'000'000);
  EXPECT_EQ(ComputeCutBound(fabric->view, 5 * kLoadUnit, kLoadUnit, four), (Load{2, 1}));
  EXPECT_EQ(ComputeCutBound(fabric->view, 5 * kLoadUnit, kLoadUnit / 2, four), (Load{3, 2}));
  EXPECT_EQ(ComputeCutBound(fabric->view, 5 * kLoadUnit, kLoadUnit / 4, four), (Load{5, 4}));
  const std::vector<std::int64_t> mixed = {100'000'000'000, 50'000'000'000};
  // Two flows on the fast link and none on the slow one, or one on each: 2 in both cases.
  EXPECT_EQ(ComputeCutBound(fabric->view, 2 * kLoadUnit, kLoadUnit, mixed), (Load{2, 1}));
  EXPECT_EQ(ComputeCutBound(fabric->view, 3 * kLoadUnit, kLoadUnit, mixed), (Load{2, 1}));
}

// The least maximum load, by trying all distributions of the portions over the links.
Load LeastByHand(const FabricView& view, std::int64_t portions, std::int64_t portion,
                 std::span<const std::int64_t> capacities) {
  if (capacities.size() == 1) return MakeLoad(view, portions * portion, capacities.front());
  Load best{std::numeric_limits<std::int32_t>::max(), 1};
  for (std::int64_t here = 0; here <= portions; ++here) {
    const Load rest = LeastByHand(view, portions - here, portion, capacities.subspan(1));
    best = std::min(best, std::max(rest, MakeLoad(view, here * portion, capacities.front())));
  }
  return best;
}

TEST(LoadBounds, AreReachedByTheBestDistribution) {
  auto fabric = Fabric::LeafSpine(4, 2);
  for (const std::uint64_t seed : SeedsToTry(1, 300)) {
    SCOPED_TRACE(seed);
    std::mt19937 random(static_cast<std::uint32_t>(seed));
    std::vector<std::int64_t> capacities(1 + random() % 4);
    for (std::int64_t& capacity : capacities) {
      capacity = std::int64_t{25'000'000'000} * (1 + random() % 4);
    }
    const std::int64_t portion = kLoadUnit / (1 + random() % 4);
    const std::int64_t portions = 1 + random() % 9;
    const Load expected = LeastByHand(fabric->view, portions, portion, capacities);
    EXPECT_EQ(ComputeCutBound(fabric->view, portions * portion, portion, capacities), expected);
    // A fraction of a portion takes as much room as a whole one.
    EXPECT_EQ(ComputeCutBound(fabric->view, portions * portion - 1, portion, capacities), expected);
  }
}

TEST(LoadBounds, CountTheCutsAroundLeavesAndPairs) {
  auto fabric = Fabric::LeafSpine(2, 3);
  const Commodity across{.source = 0, .destination = 1};
  EXPECT_EQ(ComputeLowerBound(fabric->view, {}), Load{});
  EXPECT_EQ(ComputeLowerBound(fabric->view, Commodities{across}), (Load{1, 1}));
  EXPECT_EQ(ComputeLowerBound(fabric->view, Commodities(5, across)), (Load{3, 1}));
  // Leaf 0 sends three over two links, leaf 2 receives one.
  const Commodities around = {across, across, {.source = 0, .destination = 2}};
  EXPECT_EQ(ComputeLowerBound(fabric->view, around), (Load{2, 1}));
  // Flows within a leaf and flows without a path do not count.
  const Commodities local(9, {.source = 1, .destination = 1});
  EXPECT_EQ(ComputeLowerBound(fabric->view, local), Load{});
  fabric->Fail("leaf0--spine0");
  EXPECT_EQ(ComputeLowerBound(fabric->view, around), (Load{3, 1}));
  fabric->Fail("leaf0--spine1");
  EXPECT_EQ(ComputeLowerBound(fabric->view, around), Load{});
}

}  // namespace
}  // namespace espalier::controller
