#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "collective/program/collective_spec.h"
#include "collective/reduce/data_type.h"
#include "collective/reduce/reduce.h"
#include "common/base/result.h"

namespace espalier::runtime {

// The buffers of a call with their size, element type and operation. `elements` is the size of one
// rank's part: the whole vector of an allreduce, reduce or broadcast; each rank's contribution to
// an allgather; each rank's result of a reduce_scatter; what each rank gets from each other one in
// an alltoall.
// In place means the same address for input and output, with two exceptions: the input of an
// allgather is the rank's part of the output, and the output of a reduce_scatter is the rank's part
// of the input.
// An allgather or a reduce_scatter may have unequal parts. `bounds` then holds size + 1 offsets, in
// elements: the begin of each rank's part in the buffer with all parts, and the end of the last
// one. `elements` is then the sum of all parts.
struct Operands {
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  std::size_t elements = 0;
  reduce::DataType type = reduce::DataType::kF32;
  reduce::ReduceOp op = reduce::ReduceOp::kSum;
  std::span<const std::size_t> bounds;

  bool HasUnequalParts() const { return !bounds.empty(); }
  // The elements of a rank's part, and those of all parts before it.
  std::size_t PartOf(int rank) const;
  std::size_t BeginOf(int rank) const;
};

// Checks what one rank can check alone: buffers are not null, fit the address space and overlap
// only in place; the root, if the kind has one, is a rank. Errors: kInvalidArgument.
Result<void> CheckOperands(program::CollectiveKind kind, const Operands& operands, int root,
                           int rank, int size);

// Computes Operands::bounds from one count per rank.
// Errors: kInvalidArgument for a collective without counts, for other than one count per rank, or
// for a sum that does not fit 64 bits.
Result<std::vector<std::size_t>> BoundsOf(program::CollectiveKind kind,
                                          std::span<const std::size_t> counts, int size);

// The bytes that a call reads and writes on a rank.
struct BufferBytes {
  std::size_t input = 0;
  std::size_t output = 0;
};
BufferBytes BytesOf(program::CollectiveKind kind, const Operands& operands, int root, int rank,
                    int size);

}  // namespace espalier::runtime
