#include "collective/program/memory_map.h"

#include <algorithm>

#include "common/base/check.h"

namespace espalier::program {

MemoryMap::MemoryMap(const CollectiveSpec& spec, int rank, int scratch_chunks, bool in_place) {
  const int input = spec.InputChunks(rank);
  const int output = spec.OutputChunks(rank);
  if (in_place && output > 0) {
    if (spec.kind == CollectiveKind::kAllGather) input_begin_ = rank * input;
    if (spec.kind == CollectiveKind::kReduceScatter) output_begin_ = spec.FirstChunk(rank);
  } else {
    output_begin_ = input;
  }
  input_end_ = input_begin_ + input;
  output_end_ = output_begin_ + output;
  scratch_begin_ = std::max(input_end_, output_end_);
  scratch_ = scratch_chunks;
}

std::optional<int> MemoryMap::Find(Location location, int count) const {
  int begin = input_begin_;
  int end = input_end_;
  if (location.buffer == Buffer::kOutput) {
    begin = output_begin_;
    end = output_end_;
  } else if (location.buffer == Buffer::kScratch) {
    begin = scratch_begin_;
    end = cells();
  }
  const std::int64_t first = std::int64_t{begin} + location.index;
  if (location.index < 0 || count < 0 || first + count > end) return std::nullopt;
  return static_cast<int>(first);
}

int MemoryMap::Cell(Location location) const {
  const auto cell = Find(location);
  ESPALIER_CHECK(cell.has_value(), "buffer={} index={}", BufferName(location.buffer),
                 location.index);
  return *cell;
}

}  // namespace espalier::program
