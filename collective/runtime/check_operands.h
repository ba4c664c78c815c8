#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "collective/program/collective_spec.h"
#include "collective/runtime/interpreter.h"
#include "common/base/result.h"

namespace espalier::runtime {

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
