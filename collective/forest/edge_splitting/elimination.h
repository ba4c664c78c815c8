#pragma once

#include <cstdint>
#include <vector>

#include "collective/forest/bound/optimality.h"
#include "collective/forest/edge_splitting/split_graph.h"
#include "collective/forest/model/control.h"
#include "collective/forest/model/forest.h"
#include "collective/forest/model/problem.h"
#include "common/base/result.h"

namespace espalier::forest {

struct EliminationOptions {
  // Complete pairings guessed, exact gammas and flows may take this many steps (arcs looked at)
  // in all before the work is given up.
  std::int64_t step_budget = std::int64_t{1} << 42;
  // Ranks are removed in their order from this one on and once round: another forest each.
  std::int32_t first_rank = 0;
};

// The removal of all nodes but one by complete edge splitting.
struct Elimination {
  std::vector<Removal> switches;  // in the order of removal
  std::vector<Removal> ranks;
  SplitGraph graph;       // with nothing but `last` left
  std::int32_t last = 0;  // the rank that is left: all K trees are s -> last
  FallbackCounters fallbacks;
};

// Removes every switch and then every rank but one, so that K = k * total weight units still flow
// from s to each rank that is left (Theorem 27; for ranks by the same theorem, as the graph is
// balanced with s).
//
// Idea. Pairings are guessed for many nodes at once and verified once: after a set of nodes is
// gone, a cut can only have become too small if a neighbour of the set is on its sink side (else
// the set, moved to the source side, would show that the cut is as it was), so flows to these
// neighbours are enough; of the set itself, each rank had to be enterable by K units when it went,
// which putting it back needs. What fails is halved, down to one node; its guess is halved down to
// single pairs, whose largest permissible amount gamma (Theorem 28) is what they have less the
// deficit that appears when all of it is split; what is left is tried pair by pair.
// Deterministic. Errors: as BuildGeneralForest.
Result<Elimination> EliminateNodes(const Problem& problem, const TreeCount& count,
                                   const EliminationOptions& options, const Control& control);

}  // namespace espalier::forest
