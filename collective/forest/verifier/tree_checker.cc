#include "collective/forest/verifier/tree_checker.h"

#include <algorithm>
#include <limits>
#include <span>

namespace espalier::forest {
namespace {

constexpr std::uint16_t kUnknown = 0xFFFF;

// Depths from the root, written into `depth`; the first rank that is wrong, or none.
std::optional<TreeChecker::BadTree> WalkTree(std::span<const Rank> parents, Rank root,
                                             std::vector<std::uint16_t>& depth,
                                             std::int32_t& height) {
  const std::size_t ranks = parents.size();
  if (parents[root] != kNoRank)
    return TreeChecker::BadTree{0, root, "is the root and has a parent"};
  for (std::size_t r = 0; r < ranks; ++r) {
    if (parents[r] >= ranks && r != root) {
      return TreeChecker::BadTree{0, static_cast<Rank>(r), "has no parent"};
    }
  }
  std::fill(depth.begin(), depth.end(), kUnknown);
  depth[root] = 0;
  height = 0;
  for (std::size_t start = 0; start < ranks; ++start) {
    // Up to a rank whose depth is known, then down again from there.
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

}  // namespace

std::optional<TreeChecker::BadTree> TreeChecker::FindBadTree(Heights& heights) const {
  std::vector<std::uint16_t> depth(static_cast<std::size_t>(forest_.rank_count));
  double sum = 0;
  double trees = 0;
  for (std::size_t c = 0; c < forest_.classes.size(); ++c) {
    std::int32_t height = 0;
    auto bad = WalkTree(forest_.Parents(c), forest_.classes[c].root, depth, height);
    if (bad) {
      bad->tree_class = c;
      return bad;
    }
    heights.max = std::max(heights.max, height);
    const auto count = static_cast<double>(forest_.classes[c].count);
    sum += count * height;
    trees += count;
  }
  heights.mean = std::max(heights.mean, trees > 0 ? sum / trees : 0.0);
  return std::nullopt;
}

TreeChecker::Usage TreeChecker::CountUses() const {
  constexpr std::size_t kBlock = 32;  // ranks; one cache line of parents
  const auto ranks = static_cast<std::size_t>(forest_.rank_count);
  Usage usage;
  usage.uses.assign(forest_.routes.ArcCount(), 0);
  // No sum can overflow where the trees of all roots together do not.
  Int128 all = 0;
  for (const TreeClass& tree : forest_.classes) all += tree.count;
  if (all > std::numeric_limits<std::int64_t>::max()) {
    usage.overflow = true;
    return usage;
  }

  std::vector<std::int64_t> trees(kBlock * ranks);  // by child in the block, then parent
  std::size_t arc = 0;                              // arcs are in the order of their heads
  for (std::size_t begin = 0; begin < ranks; begin += kBlock) {
    const std::size_t end = std::min(begin + kBlock, ranks);
    std::fill(trees.begin(), trees.end(), 0);
    for (std::size_t c = 0; c < forest_.classes.size(); ++c) {
      const std::int64_t count = forest_.classes[c].count;
      const std::span<const Rank> parents = forest_.Parents(c);
      for (std::size_t r = begin; r < end; ++r) {
        if (parents[r] != kNoRank) trees[(r - begin) * ranks + parents[r]] += count;
      }
    }
    for (; arc < usage.uses.size() && forest_.routes.To(arc) < end; ++arc) {
      std::int64_t& entry =
          trees[(forest_.routes.To(arc) - begin) * ranks + forest_.routes.From(arc)];
      usage.uses[arc] = std::exchange(entry, 0);
    }
    const auto left = std::find_if(trees.begin(), trees.end(), [](auto n) { return n != 0; });
    if (left != trees.end()) {
      const auto place = static_cast<std::size_t>(left - trees.begin());
      usage.missing = {static_cast<Rank>(place % ranks), static_cast<Rank>(begin + place / ranks)};
      return usage;
    }
  }
  return usage;
}

}  // namespace espalier::forest
