#pragma once

#include <cstdint>

#include "collective/synthesis/all_to_all.h"
#include "collective/synthesis/graphs/digraph.h"
#include "common/base/result.h"

namespace espalier::synthesis {

struct AllToAllOptions {
  // Without translations: ends when bound / rate - 1 is at most `gap`, or after so many steps of
  // work (about a billion a second).
  double gap = 0.01;
  std::int64_t max_work = 2'000'000'000;
  // The number of equal parts into which a message may be cut; 0: any shares. The rate is then that
  // of whole parts, and the bound that of any.
  std::int64_t parts = 0;
};

// Finds a routing with the best rate.
//
// With translations (Translations in digraph.h), trees of one node stand for all: its loads add up
// by the arcs out of node 0, so the program has one row for each such arc (one for an arc and its
// reverse). It is solved exactly in integers, with a column for each tree that Dijkstra's algorithm
// finds to be shorter than the prices allow.
//
// Otherwise, and for unequal demands, it is a game: for every node one player mixes its trees, and
// the links' player mixes links to find the busiest one. Regret matching solves it for the trees at
// hand; shortest paths for the mixed links then give new trees and prove a bound (double oracle).
// Rate and bound are computed exactly from what it found.
//
// Errors: those of CheckConnected; kInvalidArgument for a demand of another size or out of range,
// or of nothing; kResourceExhausted if exact terms exceed 127 bits, and for a game of more than
// kMaxRoutedNodes nodes.
constexpr std::int32_t kMaxRoutedNodes = 1024;
Result<AllToAll> ComputeAllToAll(const Digraph& graph, const AllToAllOptions& options = {},
                                 Demand demand = {});

}  // namespace espalier::synthesis
