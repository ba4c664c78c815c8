#include "controller/routing/occupancy/path_search.h"

#include <gtest/gtest.h>

#include <optional>

#include "tests/controller/routing/occupancy/test_tables.h"
#include "tests/seeds.h"

namespace espalier::controller {
namespace {

constexpr std::int64_t kManySteps = 1'000'000;

// The links of its route that are above their limits.
std::ptrdiff_t LinksAboveLimit(Tables& tables, SubflowId subflow) {
  const SubflowState& state = tables.subflows()[subflow];
  const PathLinks links = tables.subflows().LinksOf(state, state.route);
  return std::count_if(links.begin(), links.end(),
                       [&](std::uint32_t link) { return tables.links().IsAboveLimit(link); });
}

// 0: a subflow without a route fits somewhere; 1: it fits when one other moves off the only link
// that is too full for it. By brute force.
std::optional<std::size_t> MovesByHand(Tables& tables, SubflowId subflow) {
  LinkTable& links = tables.links();
  const SubflowState& state = tables.subflows()[subflow];
  std::optional<std::size_t> best;
  for (std::int32_t route = 0; route < tables.subflows().RouteCount(state) && best != 0U; ++route) {
    if (!tables.subflows().IsUsable(state, route)) continue;
    links.MoveTo(subflow, route);
    const std::ptrdiff_t above = LinksAboveLimit(tables, subflow);
    if (above == 0) best = 0;
    for (const SubflowId other : tables.all()) {
      const SubflowState& moved = tables.subflows()[other];
      const std::int32_t from = moved.route;
      if (best || above > 1 || other == subflow || from < 0 || moved.pinned) continue;
      for (std::int32_t to = 0; to < tables.subflows().RouteCount(moved); ++to) {
        if (to == from || !tables.subflows().IsUsable(moved, to)) continue;
        links.MoveTo(other, to);
        if (LinksAboveLimit(tables, subflow) == 0 && LinksAboveLimit(tables, other) == 0) best = 1;
      }
      links.MoveTo(other, from);
    }
  }
  links.MoveTo(subflow, kNoPath);
  return best;
}

std::unique_ptr<Fabric> MakeFabric(std::uint64_t seed, std::mt19937& random) {
  if (seed % 3 == 0) return std::make_unique<Fabric>(*fabric::BuildFatTree({.k = 4}));
  auto spec = *fabric::BuildLeafSpine({.spines = 3, .leaves = 4, .hosts_per_leaf = 1});
  if (seed % 3 == 1) return std::make_unique<Fabric>(std::move(spec));
  for (fabric::Link& link : spec.links) {
    if (random() % 4 == 0) link.rate = BitsPerSecond{link.rate.value / 2};
  }
  return std::make_unique<Fabric>(std::move(spec));
}

TEST(PathSearch, FindsAFittingChainWheneverOneMoveIsEnough) {
  std::array<int, 3> lengths{};
  for (const std::uint64_t seed : SeedsToTry(1, 150)) {
    SCOPED_TRACE(seed);
    std::mt19937 random(static_cast<std::uint32_t>(seed));
    Tables tables(MakeFabric(seed, random));
    tables.links().SetLimits({static_cast<std::int64_t>(1 + seed % 2), 1},
                             LinkTable::Bound::kAtMost);
    PathSearch search(tables.subflows(), tables.links());
    search.Clear();
    for (int i = 0; i < 40; ++i) {
      const auto [source, destination] = tables.RandomPair(random);
      const SubflowId subflow = tables.Add(source, destination, kLoadUnit >> random() % 2);
      const auto expected = MovesByHand(tables, subflow);
      const auto before = tables.Routes();
      std::int64_t steps = kManySteps;
      const auto moves = search.Insert(subflow, {}, steps);
      if (moves.empty()) {
        EXPECT_FALSE(expected);
        EXPECT_EQ(tables.Routes(), before);
        tables.Remove(subflow);
        continue;
      }
      EXPECT_EQ(moves.front().subflow, subflow);
      EXPECT_EQ(moves.front().from, kNoPath);
      if (expected) {
        EXPECT_EQ(moves.size() - 1, *expected);
      }
      ++lengths[std::min<std::size_t>(moves.size() - 1, 2)];
      for (const SubflowMove& move : moves.subspan(1))
        EXPECT_FALSE(tables.subflows()[move.subflow].pinned);
      tables.subflows()[subflow].pinned = random() % 8 == 0;
      tables.ExpectWithinLimits(moves);
      tables.ExpectConsistent();
      if (HasFatalFailure()) return;
    }
  }
  if (SeedsToTry(1, 2).size() == 2) {
    EXPECT_GT(lengths[1], 50);
    EXPECT_GT(lengths[2], 10);
  }
}

TEST(PathSearch, TakesOneSubflowOffALinkAndStopsAtItsBudgets) {
  // Three subflows on spine 0 of leaf 0, with limits of two.
  Tables tables(Fabric::LeafSpine(2, 4));
  tables.SetAllLimits(2 * kLoadUnit);
  const SubflowId first = tables.AddOn(0, 1, 0);
  tables.AddOn(0, 2, 0);
  tables.AddOn(0, 3, 0);
  const auto link = *tables.subflows().LinksOf(tables.subflows()[first], 0).begin();
  PathSearch search(tables.subflows(), tables.links());
  search.Clear();
  std::int64_t steps = kManySteps;
  EXPECT_TRUE(search.Relieve(link, {.moves = 0}, steps).empty());
  tables.subflows()[first].pinned = true;
  const auto moves = search.Relieve(link, {.moves = 1}, steps);
  ASSERT_EQ(moves.size(), 1U);
  EXPECT_NE(moves.front().subflow, first);
  EXPECT_EQ(moves.front().from, 0);
  EXPECT_EQ(moves.front().to, 1);
  EXPECT_EQ(tables.links().LoadOf(link), 2 * kLoadUnit);
  tables.ExpectConsistent();

  // A chain of two others: no steps are left to consider the second.
  Tables corner(Fabric::LeafSpine(2, 4));
  corner.SetAllLimits(kLoadUnit);
  corner.AddOn(0, 1, 0);
  corner.AddOn(2, 3, 1);
  const SubflowId subflow = corner.Add(0, 3);
  PathSearch limited(corner.subflows(), corner.links());
  limited.Clear();
  steps = 2;
  EXPECT_TRUE(limited.Insert(subflow, {}, steps).empty());
  EXPECT_EQ(steps, 0);
  steps = kManySteps;
  EXPECT_EQ(limited.Insert(subflow, {}, steps).size(), 2U);
}

}  // namespace
}  // namespace espalier::controller
