#include "collective/order/rank_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "collective/algorithms/algorithm.h"
#include "tests/seeds.h"

namespace espalier::order {
namespace {

RankTraffic TrafficOf(const std::string& name, int ranks, int ranks_per_node = 0) {
  const auto program =
      algorithms::MakeAlgorithm(name, {.ranks = ranks, .ranks_per_node = ranks_per_node});
  EXPECT_TRUE(program) << program.error().message;
  return MeasureTraffic(*program);
}

std::int64_t SumOf(const RankTraffic& traffic, const std::vector<Level>& levels,
                   const std::vector<int>& place_of) {
  std::int64_t sum = 0;
  for (const Level& level : levels) {
    for (const auto& [from, to, chunks] : traffic.amounts) {
      const auto group = [&](int rank) {
        return level.group_of[static_cast<std::size_t>(place_of[static_cast<std::size_t>(rank)])];
      };
      if (group(from) != group(to)) sum += chunks;
    }
  }
  return sum;
}

std::int64_t Sum(const std::vector<std::int64_t>& values) {
  return std::accumulate(values.begin(), values.end(), std::int64_t{0});
}

// A ring over 8 places of 4 leaves in turns: present, all bytes leave their leaf; best, one in two.
TEST(RankOrder, SortsARingByLeavesAndPods) {
  const std::vector<Level> levels{{"leaf", {0, 1, 2, 3, 0, 1, 2, 3}},
                                  {"pod", {0, 1, 0, 1, 0, 1, 0, 1}}};
  const RankTraffic ring = TrafficOf("allreduce-ring-chunked", 8);
  const OrderAdvice advice = AdviseOrder(ring, levels);
  const std::int64_t edge = ring.amounts.front().chunks;
  EXPECT_EQ(advice.present, (std::vector<std::int64_t>{8 * edge, 8 * edge}));
  EXPECT_EQ(advice.best, (std::vector<std::int64_t>{4 * edge, 2 * edge}));
  EXPECT_EQ(advice.least, advice.best);
  EXPECT_TRUE(advice.is_optimal);
}

TEST(RankOrder, ProvesHierarchiesOptimal) {
  // Nodes of two ranks; a leaf holds two nodes, but their places are mixed.
  const std::vector<Level> levels{{"host", {0, 1, 2, 3, 3, 2, 1, 0}},
                                  {"leaf", {0, 0, 1, 1, 1, 1, 0, 0}}};
  const RankTraffic traffic = TrafficOf("allreduce-hierarchical", 8, 2);
  const OrderAdvice advice = AdviseOrder(traffic, levels);
  EXPECT_TRUE(advice.is_optimal);
  EXPECT_LT(Sum(advice.best), Sum(advice.present));
}

TEST(RankOrder, KnowsWhatLeavesPlacesOfTheirOwn) {
  // Every rank on a host of its own: all bytes leave it. Nodes of two ranks fill the leaves.
  const std::vector<Level> levels{{"host", {0, 1, 2, 3}}, {"leaf", {0, 1, 0, 1}}};
  const OrderAdvice advice = AdviseOrder(TrafficOf("allreduce-hierarchical", 4, 2), levels);
  EXPECT_TRUE(advice.is_optimal);
  EXPECT_LT(advice.best[1], advice.present[1]);
  EXPECT_EQ(advice.best[0], advice.present[0]);
}

TEST(RankOrder, KeepsAnOrderThatIsBest) {
  const std::vector<Level> levels{{"leaf", {0, 0, 0, 1, 1, 1}}};
  const OrderAdvice advice = AdviseOrder(TrafficOf("allgather-ring", 6), levels);
  EXPECT_EQ(advice.best, advice.present);
  EXPECT_EQ(advice.place_of, (std::vector<int>{0, 1, 2, 3, 4, 5}));
  EXPECT_TRUE(AdviseOrder(TrafficOf("allgather-ring", 3), {{"leaf", {0, 0, 0}}}).is_optimal);
}

// Against all orders of up to seven ranks with random traffic: the bound holds, the cost is that of
// the order, and an order that claims to be optimal is.
TEST(RankOrder, IsBetweenItsBoundAndTheBestOfAllOrders) {
  int proved = 0;
  for (const std::uint64_t seed : SeedsToTry(1, 40)) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const int ranks = static_cast<int>(2 + random() % 6);
    RankTraffic traffic{.ranks = ranks, .all_chunks = 1, .amounts = {}};
    const bool is_ring = seed % 4 == 0;
    for (int from = 0; from < ranks; ++from) {
      for (int to = 0; to < ranks; ++to) {
        const bool sends = is_ring ? to == (from + 1) % ranks : from != to && random() % 2 == 0;
        if (sends)
          traffic.amounts.push_back({from, to, is_ring ? 3 : 1 + std::int64_t(random() % 9)});
      }
    }
    std::vector<Level> levels{{"leaf", {}}, {"pod", {}}};
    for (int place = 0; place < ranks; ++place) {
      levels[0].group_of.push_back(static_cast<int>(random() % 3));
      levels[1].group_of.push_back(levels[0].group_of.back() / 2);
    }
    const OrderAdvice advice = AdviseOrder(traffic, levels);
    std::vector<int> order(static_cast<std::size_t>(ranks));
    std::iota(order.begin(), order.end(), 0);
    EXPECT_EQ(Sum(advice.present), SumOf(traffic, levels, order));
    EXPECT_EQ(Sum(advice.best), SumOf(traffic, levels, advice.place_of));
    std::int64_t best = Sum(advice.present);
    do {
      best = std::min(best, SumOf(traffic, levels, order));
    } while (std::ranges::next_permutation(order).found);
    EXPECT_LE(Sum(advice.least), best);
    EXPECT_GE(Sum(advice.best), best);
    EXPECT_LE(Sum(advice.best), Sum(advice.present));
    if (advice.is_optimal) {
      EXPECT_EQ(Sum(advice.best), best);
      ++proved;
    }
    if (is_ring) {
      EXPECT_EQ(Sum(advice.best), best);
    }
  }
  EXPECT_GT(proved, 5);
}

}  // namespace
}  // namespace espalier::order
