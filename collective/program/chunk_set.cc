#include "collective/program/chunk_set.h"

namespace espalier::program {

ChunkSet ChunkSet::Of(std::int64_t begin, std::int64_t end) {
  ChunkSet set;
  if (begin < end) set.ranges_.push_back({begin, end});
  return set;
}

std::optional<ChunkSet> ChunkSet::DisjointUnion(const ChunkSet& a, const ChunkSet& b) {
  ChunkSet sum;
  sum.ranges_.reserve(a.ranges_.size() + b.ranges_.size());
  auto left = a.ranges_.begin();
  auto right = b.ranges_.begin();
  while (left != a.ranges_.end() || right != b.ranges_.end()) {
    const bool take_left =
        right == b.ranges_.end() || (left != a.ranges_.end() && left->begin < right->begin);
    const Range next = take_left ? *left++ : *right++;
    if (sum.ranges_.empty() || sum.ranges_.back().end < next.begin) {
      sum.ranges_.push_back(next);
    } else if (sum.ranges_.back().end == next.begin) {
      sum.ranges_.back().end = next.end;
    } else {
      return std::nullopt;
    }
  }
  return sum;
}

}  // namespace espalier::program
