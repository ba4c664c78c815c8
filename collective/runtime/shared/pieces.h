#pragma once

#include <algorithm>
#include <cstddef>

#include "collective/reduce/data_type.h"
#include "collective/runtime/calls/operands.h"

namespace espalier::runtime {

// Cuts a vector of `count` elements of `element` bytes into pieces of at most `length` elements.
// Pieces beyond its end are empty.
struct Pieces {
  std::size_t count;
  std::size_t length;
  std::size_t element;

  std::size_t size() const { return (count + length - 1) / length; }
  std::size_t Offset(std::size_t piece) const { return piece * length * element; }
  std::size_t Elements(std::size_t piece) const {
    return std::min(length, count - std::min(count, piece * length));
  }
  std::size_t Bytes(std::size_t piece) const { return Elements(piece) * element; }
};

// The longest of the ranks' parts of a call, cut into pieces of at most `piece_bytes` bytes.
inline Pieces LongestPart(const Operands& operands, int ranks, std::size_t piece_bytes) {
  const std::size_t element = reduce::SizeOf(operands.type);
  std::size_t longest = 0;
  for (int rank = 0; rank < ranks; ++rank) longest = std::max(longest, operands.PartOf(rank));
  return {longest, piece_bytes / element, element};
}

}  // namespace espalier::runtime
