#include "collective/forest/flow/pull_flow.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <vector>

namespace espalier::forest {
namespace {

constexpr unsigned kSeed = 20261121;

// Computes a maximum flow by augmenting paths on a full matrix: slow and plain.
class MatrixFlow {
 public:
  MatrixFlow(const FlowGraph& graph, const std::vector<bool>& contracted)
      : source_(static_cast<std::size_t>(graph.NodeCount())),
        capacity_(source_ + 1, std::vector<std::int64_t>(source_ + 1, 0)) {
    for (std::int32_t node = 0; node < graph.NodeCount(); ++node) {
      const auto at = static_cast<std::size_t>(node);
      capacity_[source_][at] =
          contracted[at] ? std::numeric_limits<std::int32_t>::max() : graph.Supply(node);
      for (const FlowGraph::Port& port : graph.Ports(node)) {
        capacity_[at][static_cast<std::size_t>(port.node)] = graph.capacity(port.out);
      }
    }
  }

  std::int64_t To(std::size_t sink) {
    std::int64_t flow = 0;
    while (true) {
      std::vector<std::size_t> before(capacity_.size(), capacity_.size());
      std::vector<std::size_t> queue{source_};
      before[source_] = source_;
      for (std::size_t i = 0; i < queue.size(); ++i) {
        for (std::size_t next = 0; next < capacity_.size(); ++next) {
          if (before[next] != capacity_.size() || capacity_[queue[i]][next] == 0) continue;
          before[next] = queue[i];
          queue.push_back(next);
        }
      }
      if (before[sink] == capacity_.size()) return flow;
      std::int64_t amount = std::numeric_limits<std::int64_t>::max();
      for (std::size_t at = sink; at != source_; at = before[at]) {
        amount = std::min(amount, capacity_[before[at]][at]);
      }
      for (std::size_t at = sink; at != source_; at = before[at]) {
        capacity_[before[at]][at] -= amount;
        capacity_[at][before[at]] += amount;
      }
      flow += amount;
    }
  }

 private:
  std::size_t source_;
  std::vector<std::vector<std::int64_t>> capacity_;
};

FlowGraph MakeRandomGraph(std::mt19937& random) {
  const auto nodes = static_cast<std::int32_t>(2 + random() % 12);
  FlowGraph graph(nodes);
  for (std::int32_t node = 0; node < nodes; ++node) {
    if (random() % 2 == 0) graph.AddSupply(node, static_cast<std::int64_t>(random() % 20));
    for (std::int32_t other = 0; other < nodes; ++other) {
      if (other != node && random() % 3 == 0) {
        graph.Add(node, other, static_cast<std::int64_t>(1 + random() % 20));
      }
    }
  }
  return graph;
}

TEST(PullFlow, FindsMaximumFlowsWithContractedNodes) {
  SCOPED_TRACE(kSeed);
  std::mt19937 random(kSeed);
  for (int round = 0; round < 2000; ++round) {
    FlowGraph graph = MakeRandomGraph(random);
    PullFlow flow(graph);
    std::vector<bool> contracted(static_cast<std::size_t>(graph.NodeCount()), false);
    for (std::int32_t sink = 0; sink < graph.NodeCount(); ++sink) {
      const std::int64_t maximum = MatrixFlow(graph, contracted).To(static_cast<std::size_t>(sink));
      const auto need = static_cast<std::int64_t>(random() % 100);
      ASSERT_EQ(flow.Deficit(sink, need), std::max<std::int64_t>(need - maximum, 0))
          << "round " << round << " sink " << sink;
      ASSERT_EQ(flow.Reaches(sink, need), need <= maximum);
      if (random() % 2 == 0) {
        flow.Contract(sink);
        contracted[static_cast<std::size_t>(sink)] = true;
      }
    }
  }
}

TEST(PullFlow, NamesTheSinkSideOfAMinimumCut) {
  SCOPED_TRACE(kSeed);
  std::mt19937 random(kSeed);
  for (int round = 0; round < 1000; ++round) {
    FlowGraph graph = MakeRandomGraph(random);
    PullFlow flow(graph);
    constexpr std::int64_t kMuch = 1'000'000;
    const std::int64_t reached = kMuch - flow.Deficit(0, kMuch);
    std::vector<bool> sink_side(static_cast<std::size_t>(graph.NodeCount()), false);
    for (const std::int32_t node : flow.SinkSide()) {
      sink_side[static_cast<std::size_t>(node)] = true;
    }
    std::int64_t cut = 0;
    for (std::int32_t node = 0; node < graph.NodeCount(); ++node) {
      const bool inside = sink_side[static_cast<std::size_t>(node)];
      if (inside) cut += graph.Supply(node);
      for (const FlowGraph::Port& port : graph.Ports(node)) {
        if (!inside && sink_side[static_cast<std::size_t>(port.node)]) {
          cut += graph.capacity(port.out);
        }
      }
    }
    ASSERT_TRUE(sink_side[0]);
    ASSERT_EQ(cut, reached) << "round " << round;
  }
}

}  // namespace
}  // namespace espalier::forest
