#pragma once

#include <cstdint>
#include <optional>

#include "collective/program/program.h"

namespace espalier::program {

// Where the buffers of one rank lie: a dense number for every chunk of memory, such that two
// locations have the same number where they are the same memory.
class MemoryMap {
 public:
  // With in_place the output is (a part of) the input or the other way round, as Placement says.
  // Of a reduce only the root has an output.
  MemoryMap(const CollectiveSpec& spec, int rank, int scratch_chunks, bool in_place);

  // Chunks of memory that it numbers, from 0 on.
  int cells() const { return scratch_begin_ + scratch_; }
  // None outside of the buffer. The chunks of a buffer follow one another.
  std::optional<int> Find(Location location, int count = 1) const;
  int Cell(Location location) const;  // of a location inside

 private:
  int input_begin_ = 0;
  int input_end_ = 0;
  int output_begin_ = 0;
  int output_end_ = 0;
  int scratch_begin_ = 0;
  int scratch_ = 0;
};

}  // namespace espalier::program
