#include "collective/synthesis/graphs/families.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <vector>

#include "collective/synthesis/graphs/distance_regular.h"
#include "collective/synthesis/schedules/bfb.h"

namespace espalier::synthesis {
namespace {

using Offsets = std::vector<std::int64_t>;

// The reversal of a network maps its arcs to their reverses, and nodes one to one.
void ExpectReversal(const Network& network) {
  std::vector<std::int32_t> images = network.reversal;
  std::ranges::sort(images);
  for (std::size_t i = 0; i < images.size(); ++i) ASSERT_EQ(images[i], static_cast<int>(i));
  for (const Arc& arc : network.graph.arcs()) {
    const std::int32_t image =
        network.graph.Find(network.reversal[static_cast<std::size_t>(arc.head)],
                           network.reversal[static_cast<std::size_t>(arc.tail)]);
    ASSERT_GE(image, 0) << arc.tail << " " << arc.head;
    ASSERT_EQ(network.graph.arcs()[static_cast<std::size_t>(image)].capacity, arc.capacity);
  }
}

TEST(Families, HaveTheirNodesDegreesAndReversals) {
  struct Case {
    Result<Network> network;
    std::int32_t nodes;
    std::int64_t degree;
    bool bidirectional;
  };
  const std::vector<Case> cases{
      {BuildComplete(6), 6, 5, true},
      {BuildCompleteBipartite(3), 6, 3, true},
      {BuildBidirectionalRing(4, 5), 5, 4, true},
      {BuildUnidirectionalRing(3, 5), 5, 3, false},
      {BuildCirculant(12, Offsets{2, 3}), 12, 4, true},
      {BuildDirectedCirculant(4), 6, 4, false},
      {BuildDeBruijn(3, 3), 27, 3, false},
      {BuildHamming(3, 3), 27, 6, true},
      {BuildTorusNetwork(Offsets{3, 2, 4}), 24, 5, true},
  };
  for (std::size_t i = 0; i < cases.size(); ++i) {
    SCOPED_TRACE(i);
    const Case& one = cases[i];
    ASSERT_TRUE(one.network) << one.network.error().message;
    EXPECT_EQ(one.network->graph.node_count(), one.nodes);
    EXPECT_EQ(one.network->graph.degree(), one.degree);
    EXPECT_TRUE(one.network->graph.is_regular());
    EXPECT_EQ(one.network->graph.IsBidirectional(), one.bidirectional);
    EXPECT_TRUE(CheckConnected(one.network->graph));
    ExpectReversal(*one.network);
  }
}

TEST(Families, GiveGeneralisedKautzGraphsAtMostOneStepMoreThanTheMooreBound) {
  for (std::int64_t d = 2; d <= 5; ++d) {
    for (std::int64_t m = d + 1; m <= 150; ++m) {
      const auto network = BuildGeneralizedKautz(d, m);
      ASSERT_TRUE(network);
      EXPECT_TRUE(network->graph.is_regular());
      EXPECT_EQ(network->graph.has_self_loops(), m % (d + 1) != 0) << d << " " << m;
      std::int64_t reached = 1;
      std::int64_t level = 1;
      int moore = 0;
      for (; reached < m; ++moore) reached += level *= d;
      EXPECT_LE(ComputeBfbCost(network->graph)->steps, moore + 1) << d << " " << m;
    }
  }
}

TEST(Families, GiveCirculantsTheLeastDiameterOfTwoOffsets) {
  for (std::int64_t n = 7; n <= 40; ++n) {
    const auto best = BestTwoOffsets(n);
    ASSERT_TRUE(best);
    const auto cost = ComputeBfbCost(BuildCirculant(n, *best)->graph);
    EXPECT_EQ(cost->steps, (*best)[0]) << n;
    EXPECT_EQ(cost->t_b, forest::Rational(n - 1, n)) << n;
    for (std::int64_t a = 1; 2 * a < n; ++a) {
      for (std::int64_t b = 1; b < a; ++b) {
        const auto other = BuildCirculant(n, Offsets{b, a});
        if (!other) continue;  // not connected
        const auto other_cost = ComputeBfbCost(other->graph);
        EXPECT_GE(other_cost->steps, cost->steps) << n << " " << a << " " << b;
        EXPECT_EQ(other_cost->t_b, cost->t_b) << n << " " << a << " " << b;  // Conjecture 1
      }
    }
  }
}

// Table A.2. Optimal in bandwidth, as all distance-regular networks (Theorem 18).
TEST(Families, HaveTheDistanceRegularNetworksOfDegreeFour) {
  const std::map<std::int64_t, int> steps{{6, 2},  {9, 2},  {10, 3}, {14, 3},  {15, 3},
                                          {16, 4}, {21, 3}, {26, 3}, {32, 4},  {35, 3},
                                          {45, 4}, {70, 7}, {80, 4}, {189, 6}, {728, 6}};
  ASSERT_EQ(DistanceRegularSizes().size(), steps.size());
  for (const std::int64_t nodes : DistanceRegularSizes()) {
    SCOPED_TRACE(nodes);
    const auto network = BuildDistanceRegular(nodes);
    ASSERT_TRUE(network);
    EXPECT_EQ(network->graph.node_count(), nodes);
    EXPECT_EQ(network->graph.degree(), 4);
    EXPECT_TRUE(network->graph.is_regular() && network->graph.IsSimple());
    const auto cost = ComputeBfbCost(network->graph);
    ASSERT_TRUE(cost) << cost.error().message;
    EXPECT_EQ(cost->steps, steps.at(nodes));
    EXPECT_EQ(cost->t_b, forest::Rational(nodes - 1, nodes));
    ExpectReversal(*network);
  }
}

TEST(Families, RefuseParametersForWhichTheyAreNotDefined) {
  for (const auto& network :
       {BuildComplete(1), BuildComplete(kMaxNodes + 1), BuildCompleteBipartite(1),
        BuildBidirectionalRing(3, 5), BuildBidirectionalRing(2, 2), BuildUnidirectionalRing(0, 4),
        BuildCirculant(8, Offsets{2}), BuildCirculant(8, Offsets{4}), BuildCirculant(8, Offsets{}),
        BuildCirculant(8, Offsets{1, 1}), BuildDirectedCirculant(0), BuildGeneralizedKautz(4, 4),
        BuildDeBruijn(1, 3), BuildDeBruijn(2, 60), BuildHamming(0, 3), BuildHamming(20, 3),
        BuildTorusNetwork(Offsets{}), BuildTorusNetwork(Offsets{3, 1}), BuildDistanceRegular(7)}) {
    ASSERT_FALSE(network);
    EXPECT_EQ(network.error().code, ErrorCode::kInvalidArgument) << network.error().message;
  }
  EXPECT_FALSE(BestTwoOffsets(6));
  EXPECT_EQ(BuildCirculant(9, Offsets{3}).error().message,
            "the offsets and the 9 nodes have the common divisor 3, so the network is not "
            "connected");
}

}  // namespace
}  // namespace espalier::synthesis
