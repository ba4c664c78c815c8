#include "collective/forest/trees/tree_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <span>
#include <vector>

#include "collective/forest/model/routed_trees.h"
#include "collective/forest/trees/half_routes.h"
#include "collective/forest/trees/last_edges.h"
#include "collective/forest/trees/level_growth.h"
#include "tests/collective/forest/check_forest.h"
#include "tests/collective/forest/random_forest.h"
#include "tests/seeds.h"

namespace espalier::forest {
namespace {

using Edge = TreeTable::Edge;

// Returns by arc the capacity that the trees' half routes leave.
std::vector<std::int64_t> LeftBy(const RawForest& raw, const HalfRoutes& half_routes,
                                 const TreeTable& trees) {
  std::vector<std::int64_t> left = raw.count.capacity;
  const auto take = [&](const HalfRoute& half, std::int64_t count) {
    for (const std::int32_t hop : half_routes.Hops(half))
      left[static_cast<std::size_t>(hop)] -= count;
  };
  for (std::uint32_t t = 0; t < trees.TreeCountOf(); ++t) {
    for (Rank rank = 0; rank < raw.problem.rank_count; ++rank) {
      if (rank == trees.RootOf(t)) continue;
      take(trees.InOf({t, rank}), trees.CountOf(t));
      if (!trees.IsAttached({t, rank})) continue;
      const TreeTable::Sender sender = trees.SenderOf({t, rank});
      take(half_routes.Out(sender.rank, sender.out), trees.CountOf(t));
    }
  }
  return left;
}

void ExpectLeft(const RawForest& raw, const HalfRoutes& half_routes, const TreeTable& trees) {
  const std::vector<std::int64_t> left = LeftBy(raw, half_routes, trees);
  for (std::size_t a = 0; a < left.size(); ++a) {
    ASSERT_EQ(trees.LeftOn(static_cast<std::int32_t>(a)), left[a]) << "arc " << a;
    ASSERT_GE(left[a], 0) << "arc " << a;
  }
}

std::vector<Edge> EdgesOf(const RawForest& raw, const TreeTable& trees) {
  std::vector<Edge> edges;
  for (std::uint32_t t = 0; t < trees.TreeCountOf(); ++t) {
    for (Rank rank = 0; rank < raw.problem.rank_count; ++rank) {
      if (rank != trees.RootOf(t)) edges.push_back({t, rank});
    }
  }
  return edges;
}

// The halves of every route make up the route, and every half route joins its rank and its hub.
TEST(HalfRoutes, CutRoutesAtTheirHubs) {
  for (const std::uint64_t seed : SeedsToTry(1, 80)) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    const auto raw = MakeRandomRawForest(random);
    if (!raw) continue;
    const auto half_routes = HalfRoutes::Find(raw->problem, raw->count, raw->forest);
    ASSERT_TRUE(half_routes.has_value());
    const RoutingTable& routes = raw->forest.routes;
    for (std::size_t arc = 0; arc < routes.ArcCount(); ++arc) {
      for (const Route& route : routes.Routes(arc)) {
        const HalfRoutes::Halves halves = half_routes->OfRoute(routes.IndexOf(route));
        const HalfRoute& out = half_routes->Out(routes.From(arc), halves.out);
        const HalfRoute& in = half_routes->In(routes.To(arc), halves.in);
        EXPECT_EQ(out.hub, in.hub);
        std::vector<std::int32_t> hops(half_routes->Hops(out).begin(),
                                       half_routes->Hops(out).end());
        hops.insert(hops.end(), half_routes->Hops(in).begin(), half_routes->Hops(in).end());
        EXPECT_TRUE(std::ranges::equal(hops, routes.Hops(route)));
      }
    }
    for (Rank rank = 0; rank < raw->problem.rank_count; ++rank) {
      for (const HalfRoute& half : half_routes->Out(rank)) {
        std::int32_t at = rank;
        for (const std::int32_t hop : half_routes->Hops(half)) {
          EXPECT_EQ(raw->problem.arcs[static_cast<std::size_t>(hop)].tail, at);
          at = half_routes->HeadOf(hop);
        }
        EXPECT_EQ(at, half.hub);
        const auto senders = half_routes->Senders(half.hub);
        EXPECT_NE(std::ranges::find(senders, rank), senders.end());
        ASSERT_TRUE(half_routes->FindOut(rank, half.hub).has_value());
        EXPECT_EQ(half_routes->Out(rank, *half_routes->FindOut(rank, half.hub)).hub, half.hub);
      }
    }
  }
}

TEST(TreeTable, GivesTheForestBackWhoseSendersItIsGiven) {
  for (const std::uint64_t seed : SeedsToTry(1, 100)) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    const auto raw = MakeRandomRawForest(random);
    if (!raw) continue;
    const auto half_routes = HalfRoutes::Find(raw->problem, raw->count, raw->forest);
    ASSERT_TRUE(half_routes.has_value());
    TreeTable trees(raw->problem, raw->count, raw->forest, *half_routes);
    ExpectLeft(*raw, *half_routes, trees);
    std::uint32_t t = 0;
    VisitRoutedTrees(raw->forest, [&](const RoutedTree& routed) {
      EXPECT_EQ(trees.RootOf(t), routed.root);
      EXPECT_EQ(trees.CountOf(t), routed.count);
      for (const TreeEdge& edge : routed.edges) {
        const auto halves = half_routes->OfRoute(raw->forest.routes.IndexOf(*edge.route));
        EXPECT_FALSE(trees.IsAttached({t, edge.child}));
        EXPECT_EQ(trees.PlaceOfIn({t, edge.child}), halves.in);
        EXPECT_GE(trees.RoomOf(half_routes->Out(edge.parent, halves.out)), routed.count);
        trees.Attach({t, edge.child}, {edge.parent, halves.out});
      }
      ++t;
      return true;
    });
    EXPECT_EQ(t, trees.TreeCountOf());
    ExpectLeft(*raw, *half_routes, trees);
    // Dividing, and an edge that loses its sender for a while, change nothing.
    for (std::uint32_t tree = 0; tree < t; ++tree) {
      if (trees.CountOf(tree) > 1) trees.Divide(tree, trees.CountOf(tree) / 2);
    }
    for (const Edge& edge : EdgesOf(*raw, trees)) {
      const TreeTable::Sender sender = trees.SenderOf(edge);
      trees.Detach(edge);
      EXPECT_FALSE(trees.IsAttached(edge));
      trees.Attach(edge, sender);
    }
    ExpectLeft(*raw, *half_routes, trees);
    const Forest collected = std::move(trees).Collect(raw->count);
    EXPECT_EQ(FindFault(raw->problem, raw->count, collected), "");
    EXPECT_EQ(ComputeHeights(collected).max, ComputeHeights(raw->forest).max);
    EXPECT_EQ(collected.unroutable_edges > 0, raw->forest.unroutable_edges > 0);
  }
}

// Growth and the search for the last senders each keep to the capacities, whatever the result; an
// edge is pending exactly if it has no sender.
TEST(TreeTable, GrowsWithinTheCapacities) {
  int stuck = 0;
  int completed = 0;
  const std::vector<std::uint64_t> seeds = SeedsToTry(1, 150);
  for (const std::uint64_t seed : seeds) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    const auto raw = MakeRandomRawForest(random);
    if (!raw) continue;
    const auto half_routes = HalfRoutes::Find(raw->problem, raw->count, raw->forest);
    ASSERT_TRUE(half_routes.has_value());
    TreeTable trees(raw->problem, raw->count, raw->forest, *half_routes);
    LevelGrowth growth(raw->problem, *half_routes, trees);
    ASSERT_TRUE(growth.Grow({}));
    ExpectLeft(*raw, *half_routes, trees);
    const std::vector<Edge> pending = growth.Pending();
    std::size_t open = 0;
    for (const Edge& edge : EdgesOf(*raw, trees)) open += trees.IsAttached(edge) ? 0U : 1U;
    EXPECT_EQ(pending.size(), open);
    for (const Edge& edge : pending) EXPECT_FALSE(trees.IsAttached(edge));
    stuck += pending.empty() ? 0 : 1;
    const bool placed = LastEdges(*half_routes, trees).PlaceAll(pending, {});
    ExpectLeft(*raw, *half_routes, trees);
    if (!placed) continue;
    completed += pending.empty() ? 0 : 1;
    EXPECT_EQ(FindFault(raw->problem, raw->count, std::move(trees).Collect(raw->count)), "");
  }
  EXPECT_TRUE((stuck > 0 && completed > 0) || seeds.size() == 1) << stuck << " " << completed;
}

}  // namespace
}  // namespace espalier::forest
