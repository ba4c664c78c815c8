#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "collective/program/chunk_set.h"
#include "common/base/result.h"

namespace espalier::program {

enum class CollectiveKind : std::uint8_t {
  kAllReduce,
  kAllGather,
  kReduceScatter,
  kReduce,
  kBroadcast,
  kAllToAll,
  kAllToNext,  // rank r's input goes to rank r + 1's output; the last rank's is dropped
  kBarrier,    // has input to send around; its value does not matter
  kCustom,     // as `expected` says, or without a known result
};

// "allreduce", "allgather", "reduce_scatter", ...
std::string_view CollectiveKindName(CollectiveKind kind);
std::optional<CollectiveKind> FindCollectiveKind(std::string_view name);

// The input chunk at `index` of the input of `rank`.
struct InputChunk {
  std::int32_t rank = 0;
  std::int32_t index = 0;
  auto operator<=>(const InputChunk&) const = default;
};

// States that output chunk `index` of `rank` is the reduction of these input chunks.
struct Expectation {
  std::int32_t rank = 0;
  std::int32_t index = 0;
  std::vector<InputChunk> sum_of;
  bool operator==(const Expectation&) const = default;
};

constexpr int kNoRoot = -1;

// What a program must compute: the signature and postcondition of a collective (GC3, section 3.2).
// Data is counted in chunks of one size, which the call decides.
struct CollectiveSpec {
  CollectiveKind kind = CollectiveKind::kAllReduce;
  int ranks = 1;
  // The data in chunks: input and output of an allreduce, a reduce, a broadcast, an alltoall, an
  // alltonext or a custom collective; the output of an allgather; the input of a reduce_scatter or
  // a barrier.
  int chunks = 1;
  // The root of a broadcast or reduce. kNoRoot if a file does not state it: the verifier finds it.
  int root = kNoRoot;
  // For reduce_scatter: how many chunks each rank gets, in the order of the ranks; empty: all the
  // same number.
  std::vector<int> counts;
  // For custom collectives, by rank and then index. Empty: the postcondition is unknown and not
  // checked.
  std::vector<Expectation> expected;

  bool operator==(const CollectiveSpec&) const = default;

  // Checks the description.
  // Errors: kInvalidArgument for no ranks or chunks, a root or counts that do not fit, chunks that
  // cannot be divided evenly among the ranks, an expectation outside the buffers, out of order, of
  // no chunk or of one chunk twice.
  Result<void> Check() const;

  int InputChunks(int rank) const;
  int OutputChunks(int rank) const;
  // For reduce_scatter: where the chunks of a rank begin in the data.
  int FirstChunk(int rank) const;
  // Whether the input of a rank holds data; in a broadcast only the root's does.
  bool HasInput(int rank) const;
  // Returns a dense number of an input chunk. Chunks of successive ranks with the same index are
  // adjacent, so that reductions over ranks are one range of a ChunkSet.
  std::int64_t Id(InputChunk chunk) const {
    return static_cast<std::int64_t>(chunk.index) * ranks + chunk.rank;
  }
  // Returns what output chunk `index` of `rank` must hold at the end; none if it may hold anything.
  // A broadcast or reduce without a root is assumed to have root `assumed_root`.
  // Precondition: Check accepts the description.
  std::optional<ChunkSet> Expected(int rank, int index, int assumed_root = 0) const;
};

}  // namespace espalier::program
