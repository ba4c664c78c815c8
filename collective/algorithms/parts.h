#pragma once

#include <vector>

#include "collective/algorithms/algorithm.h"

namespace espalier::algorithms {

// Functions that several algorithms share.

constexpr int kMaxChunks = 1 << 24;  // limit for a user's distribution

// Returns 0, ..., ranks - 1.
std::vector<int> AllRanks(int ranks);

// The whole algorithm for one rank: the input is the output.
void CopyOwn(program::ProgramBuilder& builder, int chunks);

// Returns the number of nodes. Errors: kInvalidArgument if the ranks cannot be divided into nodes.
Result<int> CountNodes(const AlgorithmOptions& options);

}  // namespace espalier::algorithms
