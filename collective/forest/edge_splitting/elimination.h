#pragma once

#include <cstdint>
#include <vector>

#include "collective/forest/bound/tree_count.h"
#include "collective/forest/edge_splitting/split_graph.h"
#include "collective/forest/model/control.h"
#include "collective/forest/model/forest.h"
#include "collective/forest/model/problem.h"
#include "common/base/result.h"

namespace espalier::forest {

struct EliminationOptions {
  // The limit on steps (arcs visited) for guessed pairings, exact gammas and flows together; the
  // construction fails beyond it.
  std::int64_t step_budget = std::int64_t{1} << 42;
  // Ranks are removed in their order, cyclically from this one on. Each start gives another forest.
  std::int32_t first_rank = 0;
};

// The result of removing all nodes but one by complete edge splitting.
struct Elimination {
  std::vector<Removal> switches;  // in the order of removal
  std::vector<Removal> ranks;
  SplitGraph graph;       // only `last` remains in it
  std::int32_t last = 0;  // the remaining rank: all K trees are s -> last
  FallbackCounters fallbacks;
};

// Removes every switch and then every rank but one, so that K = k * total weight units still flow
// from s to each remaining rank (ForestColl, Theorem 27; it applies to ranks too, as the graph is
// balanced with s).
//
// Idea: guess the pairings of many nodes at once and verify them together. After a set of nodes is
// removed, only a cut with a neighbour of the set on its sink side can have become too small:
// otherwise the set, moved to the source side, shows that the cut is unchanged. So flows to these
// neighbours suffice. For the removed ranks themselves, K units had to be able to enter each one
// when it was removed, which putting it back requires. A batch that fails is halved, down to one
// node. The guess for a single node is halved down to single pairs. The largest permissible amount
// gamma of a pair (Theorem 28) is its capacity less the deficit that appears when all of it is
// split. The rest is tried pair by pair.
// Deterministic. Errors: those of BuildGeneralForest.
Result<Elimination> EliminateNodes(const Problem& problem, const TreeCount& count,
                                   const EliminationOptions& options, const Control& control);

}  // namespace espalier::forest
