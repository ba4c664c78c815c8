#include "controller/routing/occupancy/tier_chains.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "tests/common/fabric/clos_shape.h"
#include "tests/controller/routing/occupancy/test_tables.h"
#include "tests/seeds.h"

namespace espalier::controller {
namespace {

constexpr std::int64_t kManySteps = 100'000'000;

// Recounts the loads from the topology's own paths, by the paths of the table, and expects that
// none is above `limit` and all paths are usable. It knows nothing of tiers and labels.
void ExpectLoadsAtMost(Tables& tables, std::int64_t limit) {
  Fabric& fabric = tables.fabric();
  std::vector<std::int64_t> loads(2 * fabric.topology.links().size());
  for (const SubflowId subflow : tables.all()) {
    const SubflowState& state = tables.subflows()[subflow];
    if (state.route < 0) continue;
    const std::int32_t path = tables.subflows().ToPath(state, state.route);
    ASSERT_EQ(tables.subflows().ToRoute(state, path), state.route);
    const auto paths = fabric.paths.Between(fabric.view.LeafNode(state.source),
                                            fabric.view.LeafNode(state.destination));
    ASSERT_LT(static_cast<std::size_t>(path), paths.size());
    ASSERT_TRUE(fabric::IsUsable(fabric.topology, paths[static_cast<std::size_t>(path)]));
    for (const auto hop : paths[static_cast<std::size_t>(path)].hops) {
      loads[hop.Index()] += state.share;
    }
  }
  for (std::uint32_t link = 0; link < loads.size(); ++link) {
    ASSERT_EQ(tables.links().LoadOf(link), loads[link]);
    ASSERT_LE(loads[link], limit) << "link " << link;
  }
}

// Of three or four tiers, nowhere narrower upwards, in any order of nodes and links.
fabric::TopologySpec WideFabric(std::mt19937& random) {
  fabric::ClosShape shape;
  const int tiers = 2 + static_cast<int>(random() % 2);
  for (int tier = 0; tier < tiers; ++tier) {
    shape.children.push_back(1 + static_cast<int>(random() % 3));
    const int below = tier == 0 ? 1 : shape.children[static_cast<std::size_t>(tier - 1)];
    shape.widths.push_back(below + static_cast<int>(random() % 2) + (tier == 0 ? 1 : 0));
  }
  shape.children.back() = std::max(2, shape.children.back());
  return shape.Build(static_cast<std::uint32_t>(random()));
}

// Pairs of leaves that fill every leaf: each sends and receives so many flows, and pairs of a leaf
// with itself are left out.
std::vector<std::pair<std::uint32_t, std::uint32_t>> FullTraffic(const Tables& tables,
                                                                 std::uint32_t per_leaf,
                                                                 std::mt19937& random) {
  std::vector<std::uint32_t> from;
  for (std::uint32_t leaf = 0; leaf < tables.leaf_count(); ++leaf) {
    from.insert(from.end(), per_leaf, leaf);
  }
  std::vector<std::uint32_t> to = from;
  std::ranges::shuffle(from, random);
  std::ranges::shuffle(to, random);
  std::vector<std::pair<std::uint32_t, std::uint32_t>> pairs;
  for (std::size_t i = 0; i < from.size(); ++i) {
    if (from[i] != to[i]) pairs.emplace_back(from[i], to[i]);
  }
  return pairs;
}

// Applies moves to routes as they are told, in the order in which to make them.
void Follow(std::span<const SubflowMove> moves, std::map<SubflowId, std::int32_t>& routes) {
  for (auto move = moves.rbegin(); move != moves.rend(); ++move) {
    const auto [route, is_new] = routes.try_emplace(move->subflow, kNoPath);
    ASSERT_EQ(route->second, move->from);
    route->second = move->to;
  }
}

// The theorem: in a folded Clos with equal links that is nowhere narrower upwards, flows that fill
// every leaf fit with one of them on each link (or `most`), in whichever order they come.
TEST(TierChains, AlwaysFindRoomWhereTheTheoremHolds) {
  std::size_t moved = 0;
  for (const std::uint64_t seed : SeedsToTry(1, 60)) {
    SCOPED_TRACE(seed);
    std::mt19937 random(static_cast<std::uint32_t>(seed));
    Tables tables(std::make_unique<Fabric>(WideFabric(random)));
    if (!tables.links().rooms().is_on()) continue;
    const auto most = static_cast<std::int64_t>(1 + seed % 2);
    const std::int64_t share = kLoadUnit >> seed % 3 / 2;
    tables.SetAllLimits(most * share);
    TierChains chains(tables.fabric().view, tables.subflows(), tables.links());
    const fabric::FoldedClos& clos = *tables.fabric().view.folded_clos();
    const std::uint32_t uplinks = clos.blocks[clos.blocks[0].parent].width;
    std::map<SubflowId, std::int32_t> routes;
    const auto start = [&](std::uint32_t source, std::uint32_t destination) {
      const SubflowId subflow = tables.Add(source, destination, share);
      std::int64_t steps = kManySteps;
      const auto moves = chains.Insert(subflow, {}, steps);
      ASSERT_FALSE(moves.empty());
      ASSERT_EQ(moves.front().subflow, subflow);
      moved += moves.size() - 1;
      Follow(moves, routes);
      ASSERT_EQ(tables.subflows()[subflow].route, routes[subflow]);
      ExpectLoadsAtMost(tables, most * share);
    };
    auto pairs = FullTraffic(tables, uplinks * static_cast<std::uint32_t>(most), random);
    for (const auto& [source, destination] : pairs) start(source, destination);
    for (int i = 0; i < 40 && !pairs.empty() && !HasFatalFailure(); ++i) {
      // Two end, and two start with exchanged ends.
      const SubflowId a = tables.AnyOf(random);
      const SubflowId b = tables.AnyOf(random);
      const SubflowState x = tables.subflows()[a];
      const SubflowState y = tables.subflows()[b];
      if (a == b || x.source == y.destination || y.source == x.destination) continue;
      for (const SubflowId ended : {a, b}) {
        tables.Remove(ended);
        routes.erase(ended);
      }
      start(x.source, y.destination);
      start(y.source, x.destination);
    }
    for (const auto& [subflow, route] : routes) {
      ASSERT_EQ(tables.subflows()[subflow].route, route);
    }
  }
  EXPECT_GT(moved, 1'000U);
}

// Whether these subflows fit, one after the other, by exhaustive search.
bool FitByHand(Tables& tables, const std::vector<SubflowId>& subflows, std::size_t next = 0) {
  if (next == subflows.size()) return true;
  const SubflowState& state = tables.subflows()[subflows[next]];
  for (std::int32_t route = 0; route < tables.subflows().RouteCount(state); ++route) {
    if (!tables.links().HasRoomOn(state, route)) continue;
    tables.links().MoveTo(subflows[next], route);
    const bool fit = FitByHand(tables, subflows, next + 1);
    tables.links().MoveTo(subflows[next], kNoPath);
    if (fit) return true;
  }
  return false;
}

// 0: a subflow without a route fits somewhere; 1: it fits when one other moves; by brute force.
std::optional<std::size_t> MovesByHand(Tables& tables, SubflowId subflow) {
  if (FitByHand(tables, {subflow})) return 0;
  for (const SubflowId other : tables.all()) {
    const std::int32_t from = tables.subflows()[other].route;
    if (other == subflow || from < 0 || tables.subflows()[other].pinned) continue;
    tables.links().MoveTo(other, kNoPath);
    const bool fit = FitByHand(tables, {subflow, other});
    tables.links().MoveTo(other, from);
    if (fit) return 1;
  }
  return std::nullopt;
}

// Small fabrics with dead links, narrower upwards or not, pinned flows and flows that fit or not.
TEST(TierChains, AgreeWithBruteForceOnSmallFabrics) {
  std::map<std::string, int> outcomes;
  for (const std::uint64_t seed : SeedsToTry(1, 1'000)) {
    SCOPED_TRACE(seed);
    std::mt19937 random(static_cast<std::uint32_t>(seed));
    const fabric::ClosShape shape{.children = {2, 2},
                                  .widths = {2, 1 + static_cast<int>(random() % 3)}};
    auto fabric = std::make_unique<Fabric>(shape.Build(static_cast<std::uint32_t>(random())));
    if (seed % 2 == 0) fabric->FailSome(random, 10);
    Tables tables(std::move(fabric));
    tables.SetAllLimits(kLoadUnit);
    TierChains chains(tables.fabric().view, tables.subflows(), tables.links());
    for (int i = 0; i < 10; ++i) {
      const auto [source, destination] = tables.RandomPair(random);
      const SubflowId subflow = tables.Add(source, destination);
      const auto by_hand = MovesByHand(tables, subflow);
      const auto before = tables.Routes();
      std::int64_t steps = kManySteps;
      const auto moves = chains.Insert(subflow, {}, steps);
      ExpectLoadsAtMost(tables, kLoadUnit);
      if (!moves.empty()) {
        tables.ExpectWithinLimits(moves.first(1));
        EXPECT_EQ(moves.size() == 1, by_hand == 0U);
        ++outcomes[by_hand == 0U ? "free" : by_hand ? "one" : "more"];
        tables.subflows()[subflow].pinned = random() % 8 == 0;
        continue;
      }
      EXPECT_FALSE(by_hand) << *by_hand;
      EXPECT_EQ(tables.Routes(), before);
      ++outcomes["none"];
      tables.Remove(subflow);
    }
    tables.ExpectConsistent();
  }
  EXPECT_GT(outcomes["one"], 50);
  EXPECT_GT(outcomes["more"], 5);
  EXPECT_GT(outcomes["none"], 50);
}

// Fabrics that are as full as they can be, where flows cost bytes and some may not move.
class Limited : public testing::Test {
 protected:
  void Fill(std::uint64_t seed) {
    random_.seed(static_cast<std::uint32_t>(seed));
    const fabric::ClosShape shape{.children = {3, 4}, .widths = {3, 3}};
    tables_ = std::make_unique<Tables>(std::make_unique<Fabric>(shape.Build()),
                                       [this](SubflowId subflow) { return bytes_[subflow]; });
    tables_->SetAllLimits(kLoadUnit);
    chains_ =
        std::make_unique<TierChains>(tables_->fabric().view, tables_->subflows(), tables_->links());
    for (const auto& [source, destination] : FullTraffic(*tables_, 3, random_)) {
      const SubflowId subflow = tables_->Add(source, destination);
      SubflowState& state = tables_->subflows()[subflow];
      const MoveBudget budget{.moves = random_() % 12,
                              .in_progress = random_() % 8,
                              .bytes = static_cast<std::int64_t>(random_() % 400)};
      std::map<SubflowId, std::int32_t> routes;
      for (const SubflowId other : tables_->all()) {
        routes[other] = tables_->subflows()[other].route;
      }
      std::int64_t steps = kManySteps;
      const auto moves = chains_->Insert(subflow, budget, steps);
      found_ += moves.empty() ? 0 : 1;
      failed_ += moves.empty() ? 1 : 0;
      ExpectWithin(budget, moves, subflow);
      Follow(moves, routes);
      for (const auto& [other, route] : routes) {
        ASSERT_EQ(tables_->subflows()[other].route, route);
      }
      ExpectLoadsAtMost(*tables_, kLoadUnit);
      bytes_[subflow] = static_cast<std::int64_t>(random_() % 100);
      state.in_progress = random_() % 4 != 0;
      state.pinned = random_() % 10 == 0;
    }
  }
  void ExpectWithin(const MoveBudget& budget, std::span<const SubflowMove> moves,
                    SubflowId newcomer) {
    if (moves.empty()) return;
    std::size_t in_progress = 0;
    std::int64_t bytes = 0;
    for (const SubflowMove& move : moves) {
      const SubflowState& state = tables_->subflows()[move.subflow];
      ASSERT_FALSE(state.pinned);
      if (move.subflow == newcomer || !state.in_progress) continue;
      ++in_progress;
      bytes += bytes_[move.subflow];
    }
    ASSERT_LE(moves.size() - 1, budget.moves);
    ASSERT_LE(in_progress, budget.in_progress);
    ASSERT_LE(bytes, budget.bytes);
  }

  std::mt19937 random_;
  std::map<SubflowId, std::int64_t> bytes_;
  std::unique_ptr<Tables> tables_;
  std::unique_ptr<TierChains> chains_;
  int found_ = 0;
  int failed_ = 0;
};

TEST_F(Limited, MovesKeepToTheBudgetAndLeavePinnedFlows) {
  for (const std::uint64_t seed : SeedsToTry(1, 40)) {
    SCOPED_TRACE(seed);
    Fill(seed);
  }
  EXPECT_GT(found_, 500);
  EXPECT_GT(failed_, 50);
}

// A link that carries two flows is relieved of one, and no other link gets above its limit.
TEST_F(Limited, RelievesALinkAboveItsLimit) {
  int relieved = 0;
  for (const std::uint64_t seed : SeedsToTry(1, 40)) {
    SCOPED_TRACE(seed);
    Fill(seed);
    for (int i = 0; i < 6; ++i) tables_->Remove(tables_->AnyOf(random_));
    const auto [source, destination] = tables_->RandomPair(random_);
    const SubflowId subflow = tables_->Add(source, destination);
    const SubflowState& state = tables_->subflows()[subflow];
    const auto routes = static_cast<std::uint32_t>(tables_->subflows().RouteCount(state));
    tables_->links().MoveTo(subflow, static_cast<std::int32_t>(random_() % routes));
    for (std::uint32_t link = 0; link < tables_->links().size(); ++link) {
      if (!tables_->links().IsAboveLimit(link)) continue;
      const auto before = tables_->links().Loads();
      const auto positions = tables_->Routes();
      std::int64_t steps = kManySteps;
      const auto moves = chains_->Relieve(link, {}, steps);
      if (moves.empty()) {
        EXPECT_EQ(tables_->Routes(), positions);
        continue;
      }
      ++relieved;
      EXPECT_EQ(tables_->links().LoadOf(link), before[link] - kLoadUnit);
      for (std::uint32_t other = 0; other < before.size(); ++other) {
        EXPECT_LE(tables_->links().LoadOf(other), std::max(before[other], kLoadUnit)) << other;
      }
      break;
    }
    tables_->ExpectConsistent();
  }
  EXPECT_GT(relieved, 15);
}

TEST(TierChains, PlaceNothingBetweenPartsWithoutAPath) {
  const fabric::ClosShape shape{.children = {2, 2}, .widths = {2, 2}, .parts = 2};
  Tables tables(std::make_unique<Fabric>(shape.Build()));
  tables.SetAllLimits(kLoadUnit);
  TierChains chains(tables.fabric().view, tables.subflows(), tables.links());
  std::int64_t steps = kManySteps;
  EXPECT_TRUE(chains.Insert(tables.Add(0, 7), {}, steps).empty());
  EXPECT_EQ(tables.subflows().RouteCount(tables.subflows()[*tables.all().begin()]), 0);
  EXPECT_EQ(chains.Insert(tables.Add(0, 3), {}, steps).size(), 1U);
}

}  // namespace
}  // namespace espalier::controller
