#include "collective/forest/trees/last_edges.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "tests/collective/forest/trees/hand_made_forest.h"

namespace espalier::forest {
namespace {

using Edge = TreeTable::Edge;

// Ranks on one switch, the node after the last rank: what each can send, and any amount in.
class LastEdgesTest : public testing::Test {
 protected:
  void Make(const std::vector<std::int64_t>& out, const std::vector<HandMadeTree>& trees) {
    const auto ranks = static_cast<std::int32_t>(out.size());
    std::vector<Arc> arcs;
    for (std::int32_t rank = 0; rank < ranks; ++rank) {
      arcs.push_back({rank, ranks, out[static_cast<std::size_t>(rank)]});
      arcs.push_back({ranks, rank, 100});
    }
    std::vector<std::int32_t> boxes(out.size(), 0);
    boxes.push_back(-1);
    made_ = MakeHandMadeForest(ranks, boxes, arcs, trees);
    half_routes_ = HalfRoutes::Find(made_.problem, made_.count, made_.forest);
    trees_.emplace(made_.problem, made_.count, made_.forest, *half_routes_);
  }

  // Gives the edges of the forest their senders, except for those into `pending`.
  void AttachExcept(const std::vector<Edge>& pending) {
    const auto hub = static_cast<std::int32_t>(made_.forest.rank_count);
    for (std::uint32_t t = 0; t < trees_->TreeCountOf(); ++t) {
      for (Rank rank = 0; rank < hub; ++rank) {
        const Rank parent = std::as_const(made_.forest).Parents(t)[rank];
        const bool is_pending = std::any_of(pending.begin(), pending.end(), [&](const Edge& edge) {
          return edge.tree == t && edge.child == rank;
        });
        if (parent == kNoRank || is_pending) continue;
        trees_->Attach({t, rank}, {parent, *half_routes_->FindOut(parent, hub)});
      }
    }
  }

  std::vector<Rank> ParentsOf(std::uint32_t tree) const {
    return {trees_->Parents(tree).begin(), trees_->Parents(tree).end()};
  }

  HandMadeForest made_;
  std::optional<HalfRoutes> half_routes_;
  std::optional<TreeTable> trees_;
};

TEST_F(LastEdgesTest, PrefersASenderNearTheRoot) {
  for (const std::int64_t root_out : {2, 1}) {
    Make({root_out, 2, 2, 2}, {{0, 1, {{0, 4, 1}, {1, 4, 2}, {2, 4, 3}}}});
    AttachExcept({{0, 3}});
    EXPECT_TRUE(LastEdges(*half_routes_, *trees_).PlaceAll({{0, 3}}, {}));
    EXPECT_EQ(ParentsOf(0), (std::vector<Rank>{kNoRank, 0, 1, static_cast<Rank>(2 - root_out)}));
  }
}

// Rank 3 itself has room, but lies below the edge.
TEST_F(LastEdgesTest, FindsNoSenderBelowTheEdge) {
  Make({1, 0, 0, 5}, {{0, 1, {{0, 4, 1}, {3, 4, 2}, {1, 4, 3}}}});
  trees_->Attach({0, 1}, {0, *half_routes_->FindOut(0, 4)});
  trees_->Attach({0, 2}, {3, *half_routes_->FindOut(3, 4)});
  EXPECT_FALSE(LastEdges(*half_routes_, *trees_).PlaceAll({{0, 3}}, {}));
  EXPECT_EQ(ParentsOf(0), (std::vector<Rank>{kNoRank, 0, 3, kNoRank}));
}

// Seven trees, of which 5 fit on one sender and 2 on the other: no other division fits.
TEST_F(LastEdgesTest, DividesTreesByTheRoomThatThereIs) {
  Make({14, 5, 2, 0}, {{0, 7, {{0, 4, 1}, {0, 4, 2}, {0, 4, 3}}}});
  AttachExcept({{0, 3}});
  EXPECT_TRUE(LastEdges(*half_routes_, *trees_).PlaceAll({{0, 3}}, {}));
  ASSERT_EQ(trees_->TreeCountOf(), 2U);
  EXPECT_EQ(trees_->CountOf(0), 5);
  EXPECT_EQ(ParentsOf(0), (std::vector<Rank>{kNoRank, 0, 0, 1}));
  EXPECT_EQ(trees_->CountOf(1), 2);
  EXPECT_EQ(ParentsOf(1), (std::vector<Rank>{kNoRank, 0, 0, 2}));
}

// Only rank 2 has room, and it is in the third tree only. In the first one, only rank 0 can send.
TEST_F(LastEdgesTest, MovesEdgesOfTwoOtherTrees) {
  const auto star = [](Rank root) {
    HandMadeTree tree{root, 1, {}};
    for (Rank child = 0; child < 4; ++child) {
      if (child != root) tree.edges.push_back({root, 4, child});
    }
    return tree;
  };
  Make({1, 3, 1, 0}, {star(0), star(1), star(1)});
  const auto attach = [&](std::uint32_t tree, Rank child, Rank sender) {
    trees_->Attach({tree, child}, {sender, *half_routes_->FindOut(sender, 4)});
  };
  attach(1, 0, 1);
  attach(1, 3, 0);
  attach(2, 2, 1);
  attach(2, 3, 1);
  EXPECT_TRUE(LastEdges(*half_routes_, *trees_).PlaceAll({{0, 3}}, {}));
  for (Rank tree = 0; tree < 3; ++tree) EXPECT_EQ(trees_->SenderOf({tree, 3}).rank, tree);
}

TEST_F(LastEdgesTest, PlacesAndDividesNothingWhenCancelled) {
  Make({7, 7, 7, 7}, {{0, 2, {{0, 4, 1}, {0, 4, 2}, {0, 4, 3}}}});
  AttachExcept({{0, 3}});
  EXPECT_FALSE(
      LastEdges(*half_routes_, *trees_).PlaceAll({{0, 3}}, {.cancelled = [] { return true; }}));
  EXPECT_FALSE(trees_->IsAttached({0, 3}));
  EXPECT_EQ(trees_->TreeCountOf(), 1U);
}

}  // namespace
}  // namespace espalier::forest
