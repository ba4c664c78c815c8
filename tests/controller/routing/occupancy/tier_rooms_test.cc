#include "controller/routing/occupancy/tier_rooms.h"

#include <gtest/gtest.h>

#include <memory>
#include <random>

#include "tests/common/fabric/clos_shape.h"
#include "tests/controller/routing/occupancy/test_tables.h"
#include "tests/seeds.h"

namespace espalier::controller {
namespace {

// Compares every bit with the load that the routes alone give.
void ExpectRooms(Tables& tables, std::int64_t share) {
  const fabric::FoldedClos& clos = *tables.fabric().view.folded_clos();
  const auto on = tables.SubflowsByLink();
  const auto has_room = [&](std::uint32_t link) {
    std::int64_t load = tables.links().BaseOf(link) + share;
    for (const SubflowId subflow : on[link]) load += tables.subflows()[subflow].share;
    return tables.fabric().view.capacities()[link] > 0 && load <= tables.links().LimitOf(link);
  };
  const TierRooms& rooms = tables.links().rooms();
  for (std::uint32_t i = 0; i < clos.blocks.size(); ++i) {
    const fabric::FoldedClos::Block& block = clos.blocks[i];
    if (block.parent == fabric::FoldedClos::kNone) continue;
    const std::uint32_t width = clos.blocks[block.parent].width;
    for (std::uint32_t top = 0; top < block.labels * width; ++top) {
      const std::uint32_t bit = top % width;
      ASSERT_EQ((rooms.At(i, top / width, true) >> bit & 1) != 0, has_room(clos.UpLink(block, top)))
          << "block " << i << " top " << top;
      ASSERT_EQ((rooms.At(i, top / width, false) >> bit & 1) != 0,
                has_room(clos.DownLink(block, top)))
          << "block " << i << " top " << top;
    }
  }
}

TEST(TierRooms, FollowsLoadsLimitsStatesAndShares) {
  for (const std::uint64_t seed : SeedsToTry(1, 20)) {
    SCOPED_TRACE(seed);
    std::mt19937 random(static_cast<std::uint32_t>(seed));
    const fabric::ClosShape shape{.children = {2, 2, 2}, .widths = {2, 3, 2}};
    auto fabric = std::make_unique<Fabric>(shape.Build(static_cast<std::uint32_t>(seed)));
    if (seed % 2 == 0) fabric->FailSome(random, 10);
    Tables tables(std::move(fabric));
    ASSERT_TRUE(tables.links().rooms().is_on());
    std::int64_t share = kLoadUnit;
    ExpectRooms(tables, share);
    tables.SetAllLimits(2 * kLoadUnit);
    for (int i = 0; i < 60; ++i) {
      const auto link = static_cast<std::uint32_t>(random() % tables.links().size());
      switch (random() % 5) {
        case 0:
          tables.links().SetLimit(link, kLoadUnit * static_cast<std::int64_t>(random() % 3));
          break;
        case 1: {
          std::vector<std::int64_t> base(tables.links().size());
          base[link] = kLoadUnit;
          tables.links().SetBaseLoads(base);
          break;
        }
        case 2:
          share = kLoadUnit >> random() % 3;
          tables.links().rooms().SetShare(tables.links(), share);
          break;
        default: {
          const auto [source, destination] = tables.RandomPair(random);
          const SubflowId subflow = tables.Add(source, destination, kLoadUnit >> random() % 2);
          const auto routes =
              static_cast<std::uint32_t>(tables.subflows().RouteCount(tables.subflows()[subflow]));
          tables.links().MoveTo(subflow, static_cast<std::int32_t>(random() % routes));
          if (random() % 3 == 0) tables.Remove(tables.AnyOf(random));
        }
      }
      ExpectRooms(tables, share);
    }
  }
}

TEST(TierRooms, IsForMoreThanTwoTiersAndAtMost64LinksUpwards) {
  const auto is_on = [](fabric::TopologySpec spec) {
    Tables tables(std::make_unique<Fabric>(std::move(spec)));
    return tables.links().rooms().is_on();
  };
  EXPECT_FALSE(is_on(*fabric::BuildLeafSpine({.spines = 2, .leaves = 2, .hosts_per_leaf = 1})));
  EXPECT_TRUE(is_on(fabric::ClosShape{.children = {1, 2}, .widths = {64, 1}}.Build()));
  EXPECT_FALSE(is_on(fabric::ClosShape{.children = {1, 2}, .widths = {65, 1}}.Build()));
}

}  // namespace
}  // namespace espalier::controller
