#pragma once

#include <cstdint>
#include <vector>

#include "collective/forest/edge_splitting/split_graph.h"
#include "collective/forest/edge_splitting/verification.h"
#include "collective/forest/model/forest.h"
#include "collective/forest/model/problem.h"
#include "common/base/result.h"

namespace espalier::forest {

// Removes one node whose guessed pairing is known to violate the invariant. It keeps as much of the
// guess as is permissible and then splits the rest pair by pair: useful routes first, then dropped
// capacity, then valleys. Modifies the graph.
//
// Always completes on a balanced graph whose invariant holds (ForestColl, Theorem 26).
// Errors: kUnavailable when cancelled; kInternal if it does not complete.
Result<Removal> RemoveExactly(const Problem& problem, SplitGraph& graph, Verification& verification,
                              std::int32_t node, std::vector<Split> guess,
                              FallbackCounters& counters);

}  // namespace espalier::forest
