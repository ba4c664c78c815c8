#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "collective/program/collective_spec.h"
#include "collective/reduce/data_type.h"
#include "collective/reduce/reduce.h"
#include "common/base/result.h"

namespace espalier::runtime {

// The caller's memory and what to do with it. `elements` counts what one rank gives or gets: the
// whole vector of an allreduce, reduce or broadcast; what each rank contributes to an allgather;
// what each rank gets of a reduce_scatter; what each rank gets from each in an alltoall.
// In place: the same address for input and output, except that the input of an allgather is the
// rank's part of the output, and the output of a reduce_scatter is the rank's part of the input.
// Parts of an allgather or a reduce_scatter may be unequal: `bounds` then says where each rank's
// begins in the buffer that has them all and, as one more, where the last ends; `elements` counts
// all of them together.
struct Operands {
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  std::size_t elements = 0;
  reduce::DataType type = reduce::DataType::kF32;
  reduce::ReduceOp op = reduce::ReduceOp::kSum;
  std::span<const std::size_t> bounds;

  bool HasUnequalParts() const { return !bounds.empty(); }
  // Elements of a rank's part, and of all parts before it.
  std::size_t PartOf(int rank) const;
  std::size_t BeginOf(int rank) const;
};

// What can be said of a call before anybody else is asked: buffers are there, are no larger than
// memory, and share memory only in place; the root is one of the ranks where the kind has one.
// Errors: kInvalidArgument.
Result<void> CheckOperands(program::CollectiveKind kind, const Operands& operands, int root,
                           int rank, int size);

// The bounds of Operands for a call with a count for each rank.
// Errors: kInvalidArgument for a collective that has none, other than one count a rank, a sum that
// is larger than memory.
Result<std::vector<std::size_t>> BoundsOf(program::CollectiveKind kind,
                                          std::span<const std::size_t> counts, int size);

// What a call reads and writes on a rank.
struct BufferBytes {
  std::size_t input = 0;
  std::size_t output = 0;
};
BufferBytes BytesOf(program::CollectiveKind kind, const Operands& operands, int root, int rank,
                    int size);

}  // namespace espalier::runtime
