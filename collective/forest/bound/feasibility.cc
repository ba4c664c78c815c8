#include "collective/forest/bound/feasibility.h"

#include "collective/forest/flow/flow_graph.h"
#include "collective/forest/flow/pull_flow.h"

namespace espalier::forest {

std::vector<std::int32_t> NeighbourOrder(const Problem& problem) {
  std::vector<std::vector<std::int32_t>> neighbours(static_cast<std::size_t>(problem.node_count));
  for (const Arc& arc : problem.arcs) {
    neighbours[static_cast<std::size_t>(arc.tail)].push_back(arc.head);
    neighbours[static_cast<std::size_t>(arc.head)].push_back(arc.tail);
  }
  std::vector<bool> seen(neighbours.size(), false);
  std::vector<std::int32_t> queue;
  for (std::int32_t start = 0; start < problem.rank_count; ++start) {
    if (seen[static_cast<std::size_t>(start)]) continue;
    seen[static_cast<std::size_t>(start)] = true;
    queue.push_back(start);
    for (std::size_t i = queue.size() - 1; i < queue.size(); ++i) {
      for (const std::int32_t next : neighbours[static_cast<std::size_t>(queue[i])]) {
        if (seen[static_cast<std::size_t>(next)]) continue;
        seen[static_cast<std::size_t>(next)] = true;
        queue.push_back(next);
      }
    }
  }
  std::erase_if(queue, [&](std::int32_t node) { return !problem.IsRank(node); });
  return queue;
}

bool SupportsTrees(const Problem& problem, std::span<const std::int64_t> capacity,
                   std::int64_t trees_per_weight) {
  return FindNarrowCut(problem, capacity, trees_per_weight).empty();
}

std::vector<std::int32_t> FindNarrowCut(const Problem& problem,
                                        std::span<const std::int64_t> capacity,
                                        std::int64_t trees_per_weight) {
  FlowGraph graph(problem.node_count);
  for (std::size_t a = 0; a < problem.arcs.size(); ++a) {
    if (capacity[a] > 0) graph.Add(problem.arcs[a].tail, problem.arcs[a].head, capacity[a]);
  }
  for (std::int32_t rank = 0; rank < problem.rank_count; ++rank) {
    graph.AddSupply(rank, problem.weight[static_cast<std::size_t>(rank)] * trees_per_weight);
  }
  PullFlow flow(graph);
  for (const std::int32_t rank : NeighbourOrder(problem)) {
    if (flow.Deficit(rank, problem.TotalWeight() * trees_per_weight) > 0) return flow.SinkSide();
    flow.Contract(rank);
  }
  return {};
}

}  // namespace espalier::forest
