#pragma once

#include <cstdint>
#include <vector>

#include "collective/forest/edge_splitting/split_graph.h"
#include "collective/forest/edge_splitting/verification.h"
#include "collective/forest/model/forest.h"
#include "collective/forest/model/problem.h"
#include "common/base/result.h"

namespace espalier::forest {

// Removes one node whose guessed pairing is known not to hold: keeps as much of the guess as is
// permissible, then splits all that is left, pair by pair, routes without a valley first and
// dropped capacity after what is of use. The graph is changed.
// Always completes on a balanced graph whose invariant holds (Theorem 26).
// Errors: kUnavailable when cancelled; kInternal where it does not complete.
Result<Removal> RemoveExactly(const Problem& problem, SplitGraph& graph, Verification& verification,
                              std::int32_t node, std::vector<Split> guess,
                              FallbackCounters& counters);

}  // namespace espalier::forest
