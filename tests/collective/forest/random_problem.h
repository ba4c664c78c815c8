#pragma once

#include <random>

#include "collective/forest/model/problem.h"
#include "common/fabric/topology.h"

namespace espalier::forest {

struct RandomGraphOptions {
  int max_ranks = 9;
  int max_switches = 5;
  std::int64_t max_rate = 1'000'000;
};

// Builds a balanced directed graph as a topology: one-way cycles and two-way links between random
// nodes, with random rates in bit/s. Occasionally it is not connected.
fabric::TopologySpec MakeRandomGraph(const RandomGraphOptions& options, std::mt19937_64& random);

// Draws weights for so many ranks: mostly all equal, else some of them 0.
std::vector<std::int64_t> MakeRandomWeights(std::size_t ranks, std::mt19937_64& random);

// Computes the bound by its definition: the largest weight(S) / B+(S) over all sets S of nodes that
// leave some rank outside; none if some B+(S) is 0 and the weight is not. Takes 2^nodes steps.
std::optional<Rational> EnumerateCuts(const Problem& problem);

}  // namespace espalier::forest
