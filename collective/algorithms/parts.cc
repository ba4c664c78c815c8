#include "collective/algorithms/parts.h"

#include <fmt/format.h>

#include <numeric>

namespace espalier::algorithms {

std::vector<int> AllRanks(int ranks) {
  std::vector<int> all(static_cast<std::size_t>(ranks));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

void CopyOwn(program::ProgramBuilder& builder, int chunks) {
  builder.Chunk(0, program::Buffer::kInput, 0, chunks).Copy(0, program::Buffer::kOutput, 0);
}

Result<int> CountNodes(const AlgorithmOptions& options) {
  const int per_node = options.ranks_per_node == 0 ? options.ranks : options.ranks_per_node;
  if (per_node < 1 || options.ranks % per_node != 0) {
    return Fail(
        ErrorCode::kInvalidArgument,
        fmt::format("{} ranks cannot be divided into nodes of {}", options.ranks, per_node));
  }
  return options.ranks / per_node;
}

}  // namespace espalier::algorithms
