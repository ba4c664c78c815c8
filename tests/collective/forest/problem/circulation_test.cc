#include "collective/forest/problem/circulation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

#include "tests/seeds.h"

namespace espalier::forest {
namespace {

constexpr std::int32_t kNodes = 4;

// Returns by node the outgoing minus the incoming capacity.
std::vector<std::int64_t> SurplusOf(std::span<const Arc> arcs,
                                    std::span<const std::int64_t> capacity) {
  std::vector<std::int64_t> surplus(kNodes, 0);
  for (std::size_t a = 0; a < arcs.size(); ++a) {
    surplus[static_cast<std::size_t>(arcs[a].tail)] += capacity[a];
    surplus[static_cast<std::size_t>(arcs[a].head)] -= capacity[a];
  }
  return surplus;
}

bool IsBalanced(std::span<const Arc> arcs, std::span<const std::int64_t> capacity) {
  return std::ranges::all_of(SurplusOf(arcs, capacity), [](std::int64_t s) { return s == 0; });
}

std::int64_t Sum(std::span<const std::int64_t> values) {
  return std::accumulate(values.begin(), values.end(), std::int64_t{0});
}

// Returns the largest balanced part of the capacities, by trying all parts.
std::int64_t MostBalanced(std::span<const Arc> arcs, std::span<const std::int64_t> capacity) {
  std::int64_t most = 0;
  std::vector<std::int64_t> part(arcs.size(), 0);
  while (true) {
    if (IsBalanced(arcs, part)) most = std::max(most, Sum(part));
    std::size_t digit = 0;
    while (digit < part.size() && part[digit] == capacity[digit]) part[digit++] = 0;
    if (digit == part.size()) return most;
    ++part[digit];
  }
}

struct Network {
  std::vector<Arc> arcs;
  std::vector<std::int64_t> capacity;
};

Network MakeNetwork(std::int64_t most, std::mt19937_64& random) {
  Network network;
  for (std::int32_t tail = 0; tail < kNodes; ++tail) {
    for (std::int32_t head = 0; head < kNodes; ++head) {
      if (tail == head || random() % 3 == 0) continue;
      network.arcs.push_back({tail, head, 0});
      network.capacity.push_back(
          static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(most + 1)));
    }
  }
  return network;
}

TEST(TrimToCirculation, BalancesAndTakesAwayAtMostAPathForEveryUnitOfSurplus) {
  for (const std::uint64_t seed : SeedsToTry(1, 2000)) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    Network network = MakeNetwork(50, random);
    const std::vector<std::int64_t> before = network.capacity;
    TrimToCirculation(kNodes, network.arcs, network.capacity);
    EXPECT_TRUE(IsBalanced(network.arcs, network.capacity));
    for (std::size_t a = 0; a < before.size(); ++a) {
      EXPECT_GE(network.capacity[a], 0);
      EXPECT_LE(network.capacity[a], before[a]);
    }
    std::int64_t most = 0;
    for (const std::int64_t surplus : SurplusOf(network.arcs, before)) {
      most += std::max<std::int64_t>(surplus, 0) * (kNodes - 1);
    }
    EXPECT_LE(Sum(before) - Sum(network.capacity), most);
  }
}

// With one unit of surplus, the shortest path is the least that can be removed.
TEST(TrimToCirculation, TakesTheLeastAwayWhereOneUnitIsMissing) {
  for (const std::uint64_t seed : SeedsToTry(1, 300)) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    Network network = MakeNetwork(3, random);
    TrimToCirculation(kNodes, network.arcs, network.capacity);
    const auto first = std::ranges::find_if(network.capacity, [](std::int64_t c) { return c > 0; });
    if (first == network.capacity.end()) continue;
    --*first;
    const std::int64_t most = MostBalanced(network.arcs, network.capacity);
    TrimToCirculation(kNodes, network.arcs, network.capacity);
    EXPECT_TRUE(IsBalanced(network.arcs, network.capacity));
    EXPECT_EQ(Sum(network.capacity), most);
  }
}

TEST(TrimToCirculation, LeavesWhatIsBalancedAlone) {
  const std::vector<Arc> arcs = {{0, 1, 0}, {1, 2, 0}, {2, 0, 0}, {0, 2, 0}, {2, 0, 0}};
  std::vector<std::int64_t> capacity = {5, 5, 5, 2, 2};
  TrimToCirculation(3, arcs, capacity);
  EXPECT_EQ(capacity, (std::vector<std::int64_t>{5, 5, 5, 2, 2}));
}

}  // namespace
}  // namespace espalier::forest
