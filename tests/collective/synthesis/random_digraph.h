#pragma once

#include <random>

#include "collective/synthesis/graphs/digraph.h"

namespace espalier::synthesis {

// The union of `degree` random permutations without fixed points: regular, perhaps with parallel
// links, connected with high probability. Tries until it is connected.
Digraph MakeRandomRegular(std::int32_t nodes, int degree, std::mt19937_64& random);

// A connected digraph of random arcs with capacities 1 ... max_capacity.
Digraph MakeRandomDigraph(std::int32_t nodes, int arcs, std::int64_t max_capacity,
                          std::mt19937_64& random);

}  // namespace espalier::synthesis
