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
  kAllToNext,  // rank r's input goes to the output of rank r + 1; the last rank's goes nowhere
  kBarrier,    // input to send around; its value does not matter
  kCustom,     // what `expected` says, or nothing at all
};

// "allreduce", "allgather", "reduce_scatter", ...
std::string_view CollectiveKindName(CollectiveKind kind);
std::optional<CollectiveKind> FindCollectiveKind(std::string_view name);

// An input chunk: the one at `index` of the input of `rank`.
struct InputChunk {
  std::int32_t rank = 0;
  std::int32_t index = 0;
  auto operator<=>(const InputChunk&) const = default;
};

// Output chunk `index` of `rank` is the reduction of these input chunks.
struct Expectation {
  std::int32_t rank = 0;
  std::int32_t index = 0;
  std::vector<InputChunk> sum_of;
  bool operator==(const Expectation&) const = default;
};

constexpr int kNoRoot = -1;

// What a program has to do: the signature and postcondition of a collective (GC3, section 3.2).
// Data is counted in chunks, all of one size, which the call decides.
struct CollectiveSpec {
  CollectiveKind kind = CollectiveKind::kAllReduce;
  int ranks = 1;
  // The data in chunks: input and output of an allreduce, a reduce, a broadcast, an alltoall, an
  // alltonext, a custom one; the output of an allgather, the input of a reduce_scatter or a
  // barrier.
  int chunks = 1;
  // Of broadcast and reduce. kNoRoot where a file does not say: the verifier finds it.
  int root = kNoRoot;
  // Of reduce_scatter: how many chunks each rank gets, in the order of the ranks; empty: as many.
  std::vector<int> counts;
  // Of custom, by rank and then index. Empty: the postcondition is not known and not checked.
  std::vector<Expectation> expected;

  bool operator==(const CollectiveSpec&) const = default;

  // Errors: kInvalidArgument for no ranks or chunks, a root or counts that do not fit, chunks that
  // the ranks cannot share out evenly, an expectation outside the buffers, out of order, or of
  // nothing or of a chunk twice.
  Result<void> Check() const;

  int InputChunks(int rank) const;
  int OutputChunks(int rank) const;
  // Of reduce_scatter: where the chunks of a rank begin in the data.
  int FirstChunk(int rank) const;
  // Whether the input of a rank holds data: of a broadcast only the root's does.
  bool HasInput(int rank) const;
  // A dense number of an input chunk. Equal chunks of successive ranks follow one another, so that
  // reductions over ranks are one range of a ChunkSet.
  std::int64_t Id(InputChunk chunk) const {
    return static_cast<std::int64_t>(chunk.index) * ranks + chunk.rank;
  }
  // What output chunk `index` of `rank` must be in the end; none where it may be anything. A
  // broadcast or reduce without a root is taken to have root `assumed_root`. Of a spec that
  // Check accepts.
  std::optional<ChunkSet> Expected(int rank, int index, int assumed_root = 0) const;
};

}  // namespace espalier::program
