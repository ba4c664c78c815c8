#pragma once

#include <cstdint>

#include "collective/forest/bound/optimality.h"
#include "collective/forest/control.h"
#include "collective/forest/forest.h"
#include "collective/forest/problem.h"

namespace espalier::forest {

struct SenderExchangeOptions {
  // Nothing more is done to trees that are no higher.
  std::int32_t low_enough = 0;
  // Edges looked at, for each edge of a class: some 30 ns each where the forest fits the caches, up
  // to 200 ns where it does not.
  std::int64_t steps_an_edge = 28;
};

// Makes the trees of a large forest lower and keeps its throughput, as LowerTrees does, in time
// that grows little faster than the forest.
//
// Idea. Every edge of a tree passes one hub, the highest switch of its way (the receiver itself
// on a direct link). Two edges over one hub can change senders, and all links carry what they
// carried. Where the tree of r reaches something from u, and the tree of u reaches something from
// r, both edges can begin at their roots: so chains turn into stars, as far as the links allow it.
// A rank is offered the highest senders of its tree that are joined to its hub. If one has no
// room, it gives up an edge of another tree that it costs less than is won: of a tree that begins
// at the old sender, if there is one, else the best of a few. Where only the first link of a way
// is full, the edge given up may lead over any hub.
// Gain is measured by label^2, later by higher powers, so that the highest trees count.
//
// Deterministic. Leaves the forest as it is where nothing becomes lower, where ranks have more
// ways than SenderPorts holds, and when cancelled.
// Complexity: rounds of O(classes * ranks), of which 2 to 8 are made (forest_bench --general).
// Memory: 20 bytes an edge of a class.
void ExchangeSenders(const Problem& problem, const TreeCount& count,
                     const SenderExchangeOptions& options, Forest& forest,
                     const Control& control = {});

}  // namespace espalier::forest
