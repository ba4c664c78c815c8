#include "collective/forest/verifier/tree_checker.h"

#include <algorithm>
#include <limits>
#include <span>

#include "common/base/parallel.h"
#include "common/os/large_memory.h"

namespace espalier::forest {
namespace {

constexpr std::uint16_t kUnknown = 0xFFFF;

// Writes the depths from the root into `depth`; returns the first rank that is wrong, or none.
std::optional<TreeChecker::BadTree> WalkTree(std::span<const Rank> parents, Rank root,
                                             std::vector<std::uint16_t>& depth,
                                             std::int32_t& height) {
  const std::size_t ranks = parents.size();
  if (parents[root] != kNoRank)
    return TreeChecker::BadTree{0, root, "is the root but has a parent"};
  for (std::size_t r = 0; r < ranks; ++r) {
    if (parents[r] >= ranks && r != root) {
      return TreeChecker::BadTree{0, static_cast<Rank>(r), "has no parent"};
    }
  }
  std::fill(depth.begin(), depth.end(), kUnknown);
  depth[root] = 0;
  height = 0;
  for (std::size_t start = 0; start < ranks; ++start) {
    // Walks up to a rank whose depth is known, then down again from there.
    std::size_t steps = 0;
    std::size_t at = start;
    while (depth[at] == kUnknown) {
      at = parents[at];
      if (++steps >= ranks) {
        return TreeChecker::BadTree{0, static_cast<Rank>(start), "is not reached from the root"};
      }
    }
    std::size_t below = depth[at] + steps;
    height = std::max(height, static_cast<std::int32_t>(below));
    for (at = start; depth[at] == kUnknown; at = parents[at]) {
      depth[at] = static_cast<std::uint16_t>(below--);
    }
  }
  return std::nullopt;
}

std::size_t FirstArcInto(const RoutingTable& routes, std::size_t rank) {
  std::size_t first = 0;
  std::size_t last = routes.ArcCount();
  while (first < last) {
    const std::size_t middle = first + (last - first) / 2;
    if (routes.To(middle) < rank) {
      first = middle + 1;
    } else {
      last = middle;
    }
  }
  return first;
}

// Counts the trees on the arcs into a range of ranks; returns the first edge without an arc, or
// none. Count: a type wide enough for all trees of the forest.
template <typename Count>
std::optional<std::pair<Rank, Rank>> CountUsesInto(const Forest& forest, std::size_t first,
                                                   std::size_t last, std::span<std::int64_t> uses) {
  constexpr std::size_t kBlock = 32;  // ranks per block; one cache line of parents
  const RoutingTable& routes = forest.routes;
  // By parent, then by child in the block: neighbouring children often have the same parent.
  std::vector<Count> trees(kBlock * static_cast<std::size_t>(forest.rank_count));
  std::size_t arc = FirstArcInto(routes, first);  // arcs are sorted by their heads
  for (std::size_t begin = first; begin < last; begin += kBlock) {
    const std::size_t end = std::min(begin + kBlock, last);
    for (std::size_t c = 0; c < forest.classes.size(); ++c) {
      const auto count = static_cast<Count>(forest.classes[c].count);
      const std::span<const Rank> parents = forest.Parents(c);
      for (std::size_t r = begin; r < end; ++r) {
        if (parents[r] != kNoRank) trees[parents[r] * kBlock + (r - begin)] += count;
      }
    }
    for (; arc < uses.size() && routes.To(arc) < end; ++arc) {
      if (routes.From(arc) >= static_cast<std::size_t>(forest.rank_count)) continue;  // not a rank
      Count& entry = trees[routes.From(arc) * kBlock + (routes.To(arc) - begin)];
      uses[arc] = static_cast<std::int64_t>(std::exchange(entry, 0));
    }
    std::optional<std::pair<Rank, Rank>> missing;
    for (std::size_t place = 0; place < trees.size(); ++place) {
      if (trees[place] == 0) continue;
      const std::pair edge(static_cast<Rank>(place / kBlock),
                           static_cast<Rank>(begin + place % kBlock));
      if (!missing || edge.second < missing->second) missing = edge;
    }
    if (missing) return missing;
  }
  return std::nullopt;
}

}  // namespace

std::optional<TreeChecker::BadTree> TreeChecker::FindBadTree(Heights& heights) const {
  struct Part {
    std::optional<BadTree> bad;
    std::int32_t max = 0;
    Int128 sum = 0;
    Int128 trees = 0;
  };
  std::vector<Part> parts(static_cast<std::size_t>(threads_));
  const auto look = [&](std::size_t number, std::size_t begin, std::size_t end) {
    Part part;
    std::vector<std::uint16_t> depth(static_cast<std::size_t>(forest_.rank_count));
    for (std::size_t c = begin; c < end && !part.bad; ++c) {
      std::int32_t height = 0;
      part.bad = WalkTree(forest_.Parents(c), forest_.classes[c].root, depth, height);
      if (part.bad) part.bad->tree_class = c;
      part.max = std::max(part.max, height);
      part.sum += Int128{forest_.classes[c].count} * height;
      part.trees += forest_.classes[c].count;
    }
    parts[number] = part;
  };
  ForRanges(threads_, forest_.classes.size(), look);
  Part all;
  for (const Part& part : parts) {
    if (part.bad) return part.bad;
    all.max = std::max(all.max, part.max);
    all.sum += part.sum;
    all.trees += part.trees;
  }
  heights.max = std::max(heights.max, all.max);
  if (all.trees > 0) {
    heights.mean =
        std::max(heights.mean, static_cast<double>(all.sum) / static_cast<double>(all.trees));
  }
  return std::nullopt;
}

TreeChecker::Usage TreeChecker::CountUses() const {
  Usage usage;
  ReserveLarge(usage.uses, forest_.routes.ArcCount());
  usage.uses.assign(forest_.routes.ArcCount(), 0);
  // No sum can overflow if the trees of all roots together do not.
  Int128 all = 0;
  for (const TreeClass& tree : forest_.classes) all += tree.count;
  if (all > std::numeric_limits<std::int64_t>::max()) {
    usage.overflow = true;
    return usage;
  }
  const bool narrow = all <= std::numeric_limits<std::uint32_t>::max();
  std::vector<std::optional<std::pair<Rank, Rank>>> missing(static_cast<std::size_t>(threads_));
  ForRanges(threads_, static_cast<std::size_t>(forest_.rank_count),
            [&](std::size_t part, std::size_t begin, std::size_t end) {
              missing[part] = narrow
                                  ? CountUsesInto<std::uint32_t>(forest_, begin, end, usage.uses)
                                  : CountUsesInto<std::uint64_t>(forest_, begin, end, usage.uses);
            });
  for (const auto& edge : missing) {
    if (!usage.missing) usage.missing = edge;
  }
  return usage;
}

}  // namespace espalier::forest
