#pragma once

#include <cstdint>
#include <optional>

#include "collective/program/program.h"

namespace espalier::program {

// Maps the buffers of one rank to memory: every chunk of memory has a dense number, and two
// locations have the same number if they are the same memory.
class MemoryMap {
 public:
  // With in_place, the output is (a part of) the input or the other way round, as BufferPlacement
  // defines. In a reduce only the root has an output.
  MemoryMap(const CollectiveSpec& spec, int rank, int scratch_chunks, bool in_place);

  // The number of chunks of memory; they are numbered from 0.
  int cells() const { return scratch_begin_ + scratch_; }
  // Returns the number of a location; none outside of the buffer. The chunks of a buffer are
  // consecutive.
  std::optional<int> Find(Location location, int count = 1) const;
  int Cell(Location location) const;  // precondition: the location is inside the buffer

 private:
  int input_begin_ = 0;
  int input_end_ = 0;
  int output_begin_ = 0;
  int output_end_ = 0;
  int scratch_begin_ = 0;
  int scratch_ = 0;
};

}  // namespace espalier::program
