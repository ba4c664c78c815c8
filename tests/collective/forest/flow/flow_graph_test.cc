#include "collective/forest/flow/flow_graph.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <utility>

#include "tests/seeds.h"

namespace espalier::forest {
namespace {

using Pairs = std::map<std::pair<std::int32_t, std::int32_t>, std::int64_t>;

// Checks that every node's ports are exactly the neighbours with capacity in either direction.
void ExpectSame(const FlowGraph& graph, Pairs& expected) {
  for (std::int32_t node = 0; node < graph.NodeCount(); ++node) {
    std::size_t neighbours = 0;
    for (std::int32_t other = 0; other < graph.NodeCount(); ++other) {
      if (other == node) continue;
      ASSERT_EQ(graph.Capacity(node, other), (expected[{node, other}]));
      neighbours += expected[{node, other}] > 0 || expected[{other, node}] > 0 ? 1U : 0U;
    }
    ASSERT_EQ(graph.Ports(node).size(), neighbours);
    for (const FlowGraph::Port& port : graph.Ports(node)) {
      ASSERT_EQ(graph.capacity(port.out), (expected[{node, port.node}]));
      ASSERT_EQ(graph.capacity(port.out ^ 1), (expected[{port.node, node}]));
    }
  }
}

TEST(FlowGraph, KeepsPortsWhenCapacityIsAddedAndRemoved) {
  for (const std::uint64_t seed : SeedsToTry(1, 20)) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    FlowGraph graph(static_cast<std::int32_t>(2 + random() % 6));
    const auto nodes = static_cast<std::uint64_t>(graph.NodeCount());
    Pairs expected;
    for (int step = 0; step < 200; ++step) {
      const auto from = static_cast<std::int32_t>(random() % nodes);
      const auto to = static_cast<std::int32_t>(random() % nodes);
      if (from == to) continue;
      std::int64_t& capacity = expected[{from, to}];
      const std::int64_t amount =
          random() % 2 == 0 ? -capacity : static_cast<std::int64_t>(random() % 5);
      capacity += amount;
      graph.Add(from, to, amount);
      ExpectSame(graph, expected);
    }
  }
}

TEST(FlowGraphDeathTest, CapacitiesAreNeverNegative) {
  FlowGraph graph(2);
  graph.Add(0, 1, 3);
  EXPECT_DEATH(graph.Add(0, 1, -4), "from=0 to=1 capacity=-1");
}

}  // namespace
}  // namespace espalier::forest
