#pragma once

#include <cstdint>
#include <optional>
#include <random>
#include <vector>

#include "collective/forest/bound/tree_count.h"
#include "collective/forest/edge_splitting/split_graph.h"
#include "collective/forest/model/problem.h"

namespace espalier::forest {

// A small random problem with its optimal number of trees, and the graph for edge splitting: all K
// = k * total weight units flow from the source to every rank.
struct RandomSplitGraph {
  Problem problem;
  TreeCount count;
  std::int64_t need = 0;  // K
  SplitGraph graph;
};

// Returns none if ranks cannot be reached, or if K is too large for the oracle below.
std::optional<RandomSplitGraph> MakeRandomSplitGraph(std::mt19937_64& random);

// The total capacity into and out of a node, including the source's.
struct NodeTotals {
  std::int64_t in = 0;
  std::int64_t out = 0;
};
NodeTotals TotalsOf(const SplitGraph& graph, std::int32_t node);

// Returns capacities from node to node; the last row is the source's supply, the last column the
// return to it.
std::vector<std::vector<std::int64_t>> MatrixOf(const SplitGraph& graph);

// Returns how many of `need` units from the source are missing at a rank, by the definition: the
// smallest of all cuts between them, found by trying all.
std::int64_t DeficitOf(const SplitGraph& graph, std::int32_t sink, std::int64_t need);

}  // namespace espalier::forest
