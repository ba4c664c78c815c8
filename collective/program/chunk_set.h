#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace espalier::program {

// A set of input chunks: what a chunk of data is the reduction of. Kept as sorted, disjoint,
// non-adjacent ranges of ids, which are few in the programs that people write.
class ChunkSet {
 public:
  struct Range {
    std::int64_t begin = 0;
    std::int64_t end = 0;
    bool operator==(const Range&) const = default;
  };

  ChunkSet() = default;
  // The ids begin, ..., end - 1.
  static ChunkSet Of(std::int64_t begin, std::int64_t end);
  static ChunkSet Of(std::int64_t id) { return Of(id, id + 1); }

  // The union of two sets that have nothing in common; none if they do. Linear in the ranges.
  static std::optional<ChunkSet> DisjointUnion(const ChunkSet& a, const ChunkSet& b);

  bool empty() const { return ranges_.empty(); }
  const std::vector<Range>& ranges() const { return ranges_; }
  bool operator==(const ChunkSet&) const = default;

 private:
  std::vector<Range> ranges_;
};

}  // namespace espalier::program
