#include "controller/routing/fabric/load.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <vector>

#include "tests/controller/routing/test_fabric.h"

namespace espalier::controller {
namespace {

TEST(Load, ComparesExactlyWhereDoublesDoNot) {
  constexpr std::int64_t kLarge = std::numeric_limits<std::int64_t>::max();
  EXPECT_LT((Load{1, 3}), (Load{1, 2}));
  EXPECT_GT((Load{3, 2}), (Load{4, 3}));
  EXPECT_LT((Load{kLarge - 1, kLarge}), (Load{1, 1}));
  EXPECT_LT((Load{kLarge - 2, kLarge - 1}), (Load{kLarge - 1, kLarge}));
  EXPECT_TRUE(((Load{2, 1}) <=> (Load{2, 1})) == std::strong_ordering::equal);
}

TEST(Load, IsReadAsAFraction) {
  EXPECT_EQ(Load{}.ToString(), "0");
  EXPECT_EQ((Load{2, 1}).ToString(), "2");
  EXPECT_EQ((Load{3, 2}).ToString(), "3/2");
  EXPECT_EQ((Load{3, 2}).Value(), 1.5);
}

TEST(Load, IsRelativeToTheFastestLinkInLowestTerms) {
  auto fabric = Fabric::LeafSpine(2, 2);
  const std::int64_t unit = fabric->view.unit_bps();
  EXPECT_EQ(MakeLoad(fabric->view, kLoadUnit, unit), (Load{1, 1}));
  EXPECT_EQ(MakeLoad(fabric->view, kLoadUnit, unit / 2), (Load{2, 1}));
  EXPECT_EQ(MakeLoad(fabric->view, kLoadUnit * 3 / 4, unit), (Load{3, 4}));
  EXPECT_EQ(MakeLoad(fabric->view, kLoadUnit / 16, unit / 4), (Load{1, 4}));
  EXPECT_EQ(MakeLoad(fabric->view, 0, 0), Load{});
}

TEST(LoadDeathTest, NothingFitsOnALinkWithoutCapacity) {
  auto fabric = Fabric::LeafSpine(2, 2);
  EXPECT_DEATH(MakeLoad(fabric->view, 1, 0), "capacity=0");
  EXPECT_DEATH(MakeLoad(fabric->view, -1, 1), "units=-1");
}

TEST(Load, TheGreatestCountsLinksBetweenSwitchesByTheirCapacity) {
  auto spec = *fabric::BuildLeafSpine({.spines = 2, .leaves = 2, .hosts_per_leaf = 1});
  for (fabric::Link& link : spec.links) {
    if (link.id == "leaf0--spine1") link.rate = BitsPerSecond{link.rate.value / 4};
  }
  Fabric fabric(std::move(spec));
  std::vector<std::int64_t> loads(fabric.view.capacities().size(), 0);
  const auto at = [&](const char* link) -> std::int64_t& {
    return loads[fabric::DirectedLink{*fabric.topology.FindLink(link), true}.Index()];
  };
  EXPECT_EQ(ComputeMaxLoad(fabric.view, loads), Load{});
  at("h0--leaf0") = 100 * kLoadUnit;  // of a host
  at("leaf0--spine0") = 3 * kLoadUnit;
  EXPECT_EQ(ComputeMaxLoad(fabric.view, loads), (Load{3, 1}));
  at("leaf0--spine1") = kLoadUnit;
  EXPECT_EQ(ComputeMaxLoad(fabric.view, loads), (Load{4, 1}));
}

}  // namespace
}  // namespace espalier::controller
