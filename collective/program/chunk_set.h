#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace espalier::program {

// A set of input chunks: those whose reduction a chunk of data is. Stored as sorted, disjoint,
// non-adjacent ranges of ids; programs that people write need few.
class ChunkSet {
 public:
  struct Range {
    std::int64_t begin = 0;
    std::int64_t end = 0;
    bool operator==(const Range&) const = default;
  };

  ChunkSet() = default;
  // Returns the set of the ids begin, ..., end - 1.
  static ChunkSet Of(std::int64_t begin, std::int64_t end);
  static ChunkSet Of(std::int64_t id) { return Of(id, id + 1); }

  // Returns the union of two disjoint sets; none if they overlap. Linear in the number of ranges.
  static std::optional<ChunkSet> DisjointUnion(const ChunkSet& a, const ChunkSet& b);

  bool empty() const { return ranges_.empty(); }
  const std::vector<Range>& ranges() const { return ranges_; }
  bool operator==(const ChunkSet&) const = default;

 private:
  std::vector<Range> ranges_;
};

}  // namespace espalier::program
