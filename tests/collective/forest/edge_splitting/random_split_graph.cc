#include "tests/collective/forest/edge_splitting/random_split_graph.h"

#include <algorithm>
#include <utility>

#include "collective/forest/problem/build_problem.h"
#include "tests/collective/forest/random_problem.h"
#include "tests/collective/forest/reference_cases.h"

namespace espalier::forest {

std::optional<RandomSplitGraph> MakeRandomSplitGraph(std::mt19937_64& random) {
  const RandomGraphOptions options{.max_ranks = 5, .max_switches = 3, .max_rate = 5};
  auto problem = BuildProblem(BuildTopology(MakeRandomGraph(options, random)), {});
  if (!problem) return std::nullopt;
  const auto optimality = ComputeOptimality(*problem);
  if (!optimality) return std::nullopt;
  auto count = CountTrees(*problem, *optimality);
  if (!count) return std::nullopt;
  const std::int64_t need = problem->TotalWeight() * count->trees_per_weight;
  SplitGraph graph(*problem, *count);
  return RandomSplitGraph{std::move(*problem), std::move(*count), need, std::move(graph)};
}

NodeTotals TotalsOf(const SplitGraph& graph, std::int32_t node) {
  NodeTotals totals{graph.In(kSource, node), graph.Out(node, kSource)};
  for (std::int32_t other = 0; other < graph.flows().NodeCount(); ++other) {
    if (other == node) continue;
    totals.in += graph.In(other, node);
    totals.out += graph.Out(node, other);
  }
  return totals;
}

std::vector<std::vector<std::int64_t>> MatrixOf(const SplitGraph& graph) {
  const std::int32_t nodes = graph.flows().NodeCount();
  std::vector<std::vector<std::int64_t>> matrix;
  for (std::int32_t from = 0; from < nodes; ++from) {
    std::vector<std::int64_t>& row = matrix.emplace_back();
    for (std::int32_t to = 0; to < nodes; ++to) row.push_back(graph.flows().Capacity(from, to));
    row.push_back(graph.Out(from, kSource));
  }
  std::vector<std::int64_t>& supply = matrix.emplace_back();
  for (std::int32_t node = 0; node < nodes; ++node) supply.push_back(graph.In(kSource, node));
  return matrix;
}

std::int64_t DeficitOf(const SplitGraph& graph, std::int32_t sink, std::int64_t need) {
  const std::vector<std::vector<std::int64_t>> matrix = MatrixOf(graph);
  const std::size_t nodes = matrix.size() - 1;
  std::int64_t deficit = 0;
  for (std::uint32_t sink_side = 0; sink_side < 1U << nodes; ++sink_side) {
    if ((sink_side >> sink & 1) == 0) continue;
    std::int64_t cut = 0;
    for (std::size_t from = 0; from <= nodes; ++from) {
      if (from < nodes && (sink_side >> from & 1) != 0) continue;
      for (std::size_t to = 0; to < nodes; ++to) {
        if ((sink_side >> to & 1) != 0) cut += matrix[from][to];
      }
    }
    deficit = std::max(deficit, need - cut);
  }
  return deficit;
}

}  // namespace espalier::forest
