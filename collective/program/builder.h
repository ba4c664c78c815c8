#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "collective/program/memory_map.h"
#include "collective/program/program.h"
#include "common/base/result.h"

namespace espalier::program {

constexpr int kAnyChannel = -1;

// One copy or reduction of chunks, as the program's text gave it: from the `source` at
// `source_rank` to the `destination` at `rank`. A reduction adds the `operand` at `rank`.
struct ChunkOp {
  bool reduces = false;
  int source_rank = 0;
  int rank = 0;
  Location source;
  Location operand;
  Location destination;
  int count = 1;
  int channel = kAnyChannel;
  int instances = 1;  // equal parts that move in parallel
};

// The Chunk DAG (GC3, section 4.1). The nodes are in the order of the text, which respects every
// edge. The edges are the overlaps of the chunks that nodes read and write.
struct ChunkDag {
  std::string name;
  CollectiveSpec collective;
  BufferPlacement placement;
  std::vector<ChunkOp> ops;
  std::vector<int> scratch_chunks;  // by rank
};

class ProgramBuilder;

// A reference to consecutive chunks as they are at this point of the program: `count` from `index`
// on in a buffer. The reference becomes stale once any of them is overwritten; using it then is an
// error.
class ChunkRef {
 public:
  // Copies the chunks to that place and returns a reference to the copies.
  ChunkRef Copy(int rank, Buffer buffer, int index, int channel = kAnyChannel) const;
  // Reduces `other`, from any rank, onto these chunks.
  ChunkRef Reduce(const ChunkRef& other, int channel = kAnyChannel) const;
  // As Reduce, but the result goes to another place of this rank and these chunks stay.
  ChunkRef ReduceTo(const ChunkRef& other, Buffer buffer, int index,
                    int channel = kAnyChannel) const;

  int rank() const { return rank_; }
  int index() const { return location_.index; }
  int count() const { return count_; }

 private:
  friend class ProgramBuilder;
  ProgramBuilder* builder_ = nullptr;
  int rank_ = 0;
  Location location_;
  int count_ = 0;
  std::int64_t made_ = 0;  // number of operations before it
};

// Traces a chunk-oriented program (GC3, section 3) into a Chunk DAG. The first error is kept, later
// calls have no effect, and Finish returns the error. So a program reads as a list of operations:
//
//   ProgramBuilder builder("ring", {.kind = kAllGather, .ranks = n, .chunks = n}, {});
//   ChunkRef chunk = builder.Chunk(0, Buffer::kInput, 0).Copy(0, Buffer::kOutput, 0);
//   for (int rank = 1; rank < n; ++rank) chunk = chunk.Copy(rank, Buffer::kOutput, 0);
//
// A program is written for all buffer placements that it allows. In place, output and input are the
// same memory, and copying chunks onto themselves does nothing; out of place the input is
// read-only. Scratch is as large as the highest index used.
// Errors (kInvalidArgument, with the number of the operation): a rank or chunk that does not exist,
// a read before any write, a stale reference, unequal counts, chunks that overlap the place that
// they are copied or reduced to, a write to the input out of place. kResourceExhausted for more
// than two million operations or 16 million chunks of all ranks' input and output.
class ProgramBuilder {
 public:
  ProgramBuilder(std::string name, CollectiveSpec collective, BufferPlacement placement);
  ProgramBuilder(const ProgramBuilder&) = delete;
  ProgramBuilder& operator=(const ProgramBuilder&) = delete;

  ChunkRef Chunk(int rank, Buffer buffer, int index, int count = 1);

  // As long as it lives, every operation is cut into this many equal parts, which move in parallel
  // over channels of their own. Nested scopes multiply.
  class ParallelScope {
   public:
    ParallelScope(ProgramBuilder& builder, int instances);
    ~ParallelScope();
    ParallelScope(const ParallelScope&) = delete;
    ParallelScope& operator=(const ParallelScope&) = delete;

   private:
    ProgramBuilder& builder_;
    int outer_;
  };
  [[nodiscard]] ParallelScope Parallelize(int instances) { return {*this, instances}; }

  // Whether an error occurred; later calls have no effect.
  bool has_failed() const { return error_.has_value(); }
  Result<ChunkDag> Finish();

 private:
  friend class ChunkRef;

  // The operation that last wrote each chunk of memory (from 1 on; 0 for the input at the start, -1
  // for never), under one buffer placement.
  struct Memory {
    bool in_place = false;
    std::vector<std::vector<std::int64_t>> written;  // by rank, then input, output, scratch
    std::vector<MemoryMap> maps;
  };

  void AddMemory(bool in_place);
  bool IsInside(int rank, Location location, int count);
  ChunkRef Add(ChunkOp op, const ChunkRef& from, const ChunkRef* onto);
  void Write(Memory& memory, const ChunkOp& op);
  bool CheckReadable(const ChunkRef& ref);
  bool CheckPlaces(const ChunkOp& op);
  void AddError(std::string message, ErrorCode code = ErrorCode::kInvalidArgument);

  ChunkDag dag_;
  std::vector<Memory> memories_;
  int instances_ = 1;
  std::optional<Error> error_;
};

}  // namespace espalier::program
