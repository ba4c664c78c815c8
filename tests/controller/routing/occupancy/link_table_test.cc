#include "controller/routing/occupancy/link_table.h"

#include <gtest/gtest.h>

#include "tests/controller/routing/occupancy/test_tables.h"
#include "tests/seeds.h"

namespace espalier::controller {
namespace {

// Links go through all their forms: idle, one whole flow, one part of a flow, few subflows, many.
void ChangeAnything(Tables& tables, std::mt19937& random, std::size_t wanted) {
  constexpr std::int64_t kShares[] = {kLoadUnit, kLoadUnit, kLoadUnit / 2, kLoadUnit / 3};
  if (tables.all().size() > random() % (2 * wanted)) {
    tables.Remove(tables.AnyOf(random));
  } else {
    const auto [source, destination] = tables.RandomPair(random);
    tables.Add(source, destination, kShares[random() % 4]);
  }
  if (tables.all().empty()) return;
  const SubflowId subflow = tables.AnyOf(random);
  const auto routes =
      static_cast<std::uint32_t>(tables.subflows().RouteCount(tables.subflows()[subflow]));
  const auto route = static_cast<std::int32_t>(random() % (routes + 1)) - 1;
  if (route < 0 || tables.Exists(subflow, route)) tables.links().MoveTo(subflow, route);
  if (random() % 8 == 0) tables.links().SetShare(tables.AnyOf(random), kShares[random() % 4]);
}

TEST(LinkTable, KnowsTheSubflowsOfEveryLinkOfAClos) {
  for (const std::uint64_t seed : SeedsToTry(1, 4)) {
    SCOPED_TRACE(seed);
    std::mt19937 random(static_cast<std::uint32_t>(seed));
    Tables tables(Fabric::LeafSpine(3, 4));
    tables.fabric().Fail("leaf1--spine2");  // subflows may be there nevertheless
    for (int step = 0; step < 1'500; ++step) {
      ChangeAnything(tables, random, step / 300 % 2 == 0 ? 8 : 40);
      tables.ExpectConsistent();
      if (HasFatalFailure()) return;
    }
  }
}

TEST(LinkTable, KnowsTheSubflowsOfEveryLinkOfThreeTiers) {
  std::mt19937 random(1);
  Tables tables(std::make_unique<Fabric>(*fabric::BuildFatTree({.k = 4})));
  ASSERT_FALSE(tables.fabric().view.clos());
  for (int step = 0; step < 1'000; ++step) {
    ChangeAnything(tables, random, step / 250 % 2 == 0 ? 8 : 60);
    tables.ExpectConsistent();
    if (HasFatalFailure()) return;
  }
}

TEST(LinkTable, PutsSubflowsOfOneSourceOnTheFirstSpinesThatAreIdleAtBothLeaves) {
  std::mt19937 random(2);
  for (int round = 0; round < 200; ++round) {
    Tables tables(Fabric::LeafSpine(70, 3));  // two words of masks
    tables.fabric().FailSome(random, 20);
    for (std::uint32_t i = 0; i < random() % 120; ++i) {
      const auto [source, destination] = tables.RandomPair(random);
      tables.AddOn(source, destination, static_cast<std::int32_t>(random() % 70),
                   random() % 4 == 0 ? kLoadUnit / 2 : kLoadUnit);
    }
    std::vector<SubflowId> starts;
    for (std::uint32_t i = 0; i < 1 + random() % 80; ++i) {
      starts.push_back(tables.Add(0, 1 + static_cast<std::uint32_t>(random() % 2),
                                  random() % 4 == 0 ? kLoadUnit / 2 : kLoadUnit));
    }
    std::vector<SubflowMove> moves(starts.size());
    moves.resize(tables.links().PutOnIdle(starts, moves.data()));
    // The same result by loads, one subflow at a time.
    for (const SubflowId subflow : starts) {
      const std::int32_t found = tables.subflows()[subflow].route;
      tables.links().MoveTo(subflow, kNoPath);
      std::int32_t first = kNoPath;
      for (std::int32_t route = 69; route >= 0; --route) {
        const PathLinks links = tables.subflows().LinksOf(tables.subflows()[subflow], route);
        const bool is_idle = std::all_of(links.begin(), links.end(), [&](std::uint32_t link) {
          const auto on = tables.links().SubflowsOn(link);
          return tables.fabric().view.capacities()[link] > 0 &&
                 std::ranges::none_of(on, [&](SubflowId other) {
                   return std::ranges::find(starts, other) == starts.end() || other < subflow;
                 });
        });
        if (is_idle) first = route;
      }
      ASSERT_EQ(found, first);
      tables.links().MoveTo(subflow, found);
    }
    for (const SubflowMove& move : moves) {
      ASSERT_EQ(move.from, kNoPath);
      ASSERT_EQ(move.to, tables.subflows().ToPath(tables.subflows()[move.subflow],
                                                  tables.subflows()[move.subflow].route));
    }
    tables.ExpectConsistent();
    if (HasFatalFailure()) return;
  }
}

TEST(LinkTable, HasRoomUpToTheLimitOfALinkThatTakesFlows) {
  Tables tables(Fabric::LeafSpine(2, 2));
  tables.SetAllLimits(2 * kLoadUnit);
  const SubflowId subflow = tables.AddOn(0, 1, 0);
  const auto link = *tables.subflows().LinksOf(tables.subflows()[subflow], 0).begin();
  EXPECT_TRUE(tables.links().HasRoom(link, kLoadUnit));
  EXPECT_FALSE(tables.links().HasRoom(link, kLoadUnit + 1));
  EXPECT_TRUE(tables.links().HasRoomOn(tables.subflows()[subflow], 0));
  EXPECT_FALSE(tables.links().IsAboveLimit(link));
  EXPECT_FALSE(tables.links().TakesOneEach(tables.subflows()[subflow]));
  tables.links().SetLimit(link, kLoadUnit - 1);
  EXPECT_TRUE(tables.links().IsAboveLimit(link));
  EXPECT_FALSE(tables.links().HasRoomOn(tables.subflows()[subflow], 0));
  tables.SetAllLimits(kLoadUnit);
  EXPECT_TRUE(tables.links().TakesOneEach(tables.subflows()[subflow]));
  tables.SetAllLimits(2 * kLoadUnit);
  tables.fabric().FailSpine(0);
  EXPECT_FALSE(tables.links().HasRoom(link, 0));
  EXPECT_FALSE(tables.links().HasRoomOn(tables.subflows()[subflow], 0));
}

TEST(LinkTable, TurnsALoadIntoLimitsByCapacity) {
  auto spec = *fabric::BuildLeafSpine({.spines = 2, .leaves = 2, .hosts_per_leaf = 1});
  const std::string slow = "leaf0--spine1";
  for (fabric::Link& link : spec.links) {
    if (link.id == slow) link.rate = BitsPerSecond{link.rate.value / 2};
  }
  Tables tables(std::make_unique<Fabric>(std::move(spec)));
  const FabricView& view = tables.fabric().view;
  const Load load{3, 2};
  for (const auto bound : {LinkTable::Bound::kAtMost, LinkTable::Bound::kBelow}) {
    tables.links().SetLimits(load, bound);
    for (std::uint32_t link = 0; link < tables.links().size(); ++link) {
      if (view.capacities()[link] == 0) continue;
      const std::int64_t limit = tables.links().LimitOf(link);
      const auto is_allowed = [&](std::int64_t units) {
        const Load found = MakeLoad(view, units, view.capacities()[link]);
        return bound == LinkTable::Bound::kAtMost ? found <= load : found < load;
      };
      EXPECT_TRUE(is_allowed(limit));
      EXPECT_FALSE(is_allowed(limit + 1));
    }
  }
}

}  // namespace
}  // namespace espalier::controller
