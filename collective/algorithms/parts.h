#pragma once

#include <vector>

#include "collective/algorithms/algorithm.h"

namespace espalier::algorithms {

// Parts that several algorithms share.

constexpr int kMaxChunks = 1 << 24;  // of a user's distribution

// 0, ..., ranks - 1.
std::vector<int> AllRanks(int ranks);

// The whole algorithm where there is one rank: the input is the output.
void CopyOwn(program::ProgramBuilder& builder, int chunks);

// The number of nodes. Errors: kInvalidArgument where the ranks do not fill them.
Result<int> CountNodes(const AlgorithmOptions& options);

}  // namespace espalier::algorithms
