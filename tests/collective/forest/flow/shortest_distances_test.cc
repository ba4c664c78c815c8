#include "collective/forest/flow/shortest_distances.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "tests/seeds.h"

namespace espalier::forest {
namespace {

TEST(DistanceTable, CountsHopsAlongTheEdges) {
  // 0 -> 1 -> ... -> 99 -> 0, and 100 unconnected: more nodes than a word has bits.
  std::vector<DistanceTable::Edge> edges;
  for (std::uint16_t i = 0; i < 100; ++i) {
    edges.push_back({i, static_cast<std::uint16_t>((i + 1) % 100)});
  }
  const DistanceTable table(101, edges);
  for (std::size_t to = 0; to < 100; ++to) {
    for (std::size_t from = 0; from < 100; ++from) {
      EXPECT_EQ(table.To(to)[from], (to + 100 - from) % 100);
    }
    EXPECT_EQ(table.To(to)[100], DistanceTable::kUnreached);
  }
}

// Compares with the Floyd-Warshall algorithm.
TEST(DistanceTable, IsThatOfRandomGraphs) {
  for (const std::uint64_t seed : SeedsToTry(1, 40)) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    const std::size_t nodes = 1 + random() % 140;
    std::vector<std::vector<int>> hops(nodes, std::vector<int>(nodes, 0xFFFF));
    for (std::size_t v = 0; v < nodes; ++v) hops[v][v] = 0;
    std::vector<DistanceTable::Edge> edges;
    for (std::size_t e = random() % (3 * nodes); e > 0; --e) {
      const std::size_t from = random() % nodes;
      const std::size_t to = random() % nodes;
      edges.push_back({static_cast<std::uint16_t>(from), static_cast<std::uint16_t>(to)});
      if (from != to) hops[from][to] = 1;
    }
    for (std::size_t via = 0; via < nodes; ++via) {
      for (std::size_t from = 0; from < nodes; ++from) {
        for (std::size_t to = 0; to < nodes; ++to) {
          hops[from][to] = std::min(hops[from][to], hops[from][via] + hops[via][to]);
        }
      }
    }
    const DistanceTable table(nodes, edges);
    for (std::size_t from = 0; from < nodes; ++from) {
      for (std::size_t to = 0; to < nodes; ++to) ASSERT_EQ(table.To(to)[from], hops[from][to]);
    }
  }
}

}  // namespace
}  // namespace espalier::forest
