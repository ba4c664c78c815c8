#include "collective/forest/edge_splitting/pairing.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>
#include <tuple>

#include "common/base/check.h"

namespace espalier::forest {

namespace {

// Problem: when a node is removed, its incoming capacity must be paired with its outgoing capacity
// so that K units still flow from s to every rank. Which pairs are permissible depends on all cuts,
// but the caller verifies a guess, so it only has to be right nearly always.
//
// Idea: lay the neighbours out on a circle, connected ranks side by side as one block. Rotating the
// circle by the largest block sends the output of each block to other blocks, as far as these can
// take it. Parts of the network so stay joined as the node joined them.
//
// Invariant: the splits use exactly the incoming and the outgoing capacity, so the node is isolated
// after them. (Both are equal, with s counted: SplitGraph.)
// Cost: O(d log d) for d neighbours.
// Source: this project. ForestColl finds the amount gamma of every pair by flows (Theorem 28), as
// RemoveExactly does when a guess fails.

// The capacity between a node and one neighbour (or s).
struct Side {
  std::int32_t node = 0;
  std::int32_t block = 0;  // neighbours of one block stay together
  std::int64_t in = 0;
  std::int64_t out = 0;
};

std::int64_t TotalIn(std::span<const Side> sides) {
  return std::accumulate(sides.begin(), sides.end(), std::int64_t{0},
                         [](std::int64_t sum, const Side& side) { return sum + side.in; });
}

std::int64_t TotalOut(std::span<const Side> sides) {
  return std::accumulate(sides.begin(), sides.end(), std::int64_t{0},
                         [](std::int64_t sum, const Side& side) { return sum + side.out; });
}

// Collects splits and merges those of the same pair.
class SplitList {
 public:
  void Add(std::int32_t from, std::int32_t to, std::int64_t amount) {
    if (amount > 0) amounts_[{from, to}] += amount;
  }
  std::vector<Split> Take() const {
    std::vector<Split> splits;
    splits.reserve(amounts_.size());
    for (const auto& [pair, amount] : amounts_) splits.push_back({pair.first, pair.second, amount});
    return splits;
  }

 private:
  std::map<std::pair<std::int32_t, std::int32_t>, std::int64_t> amounts_;
};

std::int64_t LargestBlock(std::span<const Side> sides) {
  std::int64_t largest = 0;
  for (std::size_t begin = 0; begin < sides.size();) {
    std::size_t end = begin;
    while (end < sides.size() && sides[end].block == sides[begin].block) ++end;
    const std::span<const Side> block = sides.subspan(begin, end - begin);
    largest = std::max({largest, TotalIn(block), TotalOut(block)});
    begin = end;
  }
  return largest;
}

// Joins position p of the incoming capacity with position p + rotation of the outgoing capacity.
// Both totals are equal.
void Rotate(std::span<const Side> sides, std::int64_t rotation, SplitList& splits) {
  const std::int64_t total = TotalIn(sides);
  ESPALIER_CHECK(total == TotalOut(sides), "in={} out={}", total, TotalOut(sides));
  if (total == 0) return;
  rotation %= total;
  // The side that owns position `rotation` of the outgoing capacity.
  std::size_t out = 0;
  std::int64_t skipped = rotation;
  for (; skipped >= sides[out].out; ++out) skipped -= sides[out].out;
  std::int64_t out_left = sides[out].out - skipped;
  for (const Side& side : sides) {
    std::int64_t in_left = side.in;
    while (in_left > 0) {
      while (out_left == 0) {
        out = (out + 1) % sides.size();
        out_left = sides[out].out;
      }
      const std::int64_t amount = std::min(in_left, out_left);
      splits.Add(side.node, sides[out].node, amount);
      in_left -= amount;
      out_left -= amount;
    }
  }
}

// Pairs incoming capacity of `sources` with outgoing capacity of `targets`, in order, and subtracts
// it from both until one of them is used up.
void Match(std::span<Side> sources, std::span<Side> targets, SplitList& splits) {
  std::size_t target = 0;
  for (Side& source : sources) {
    while (source.in > 0 && target < targets.size()) {
      Side& side = targets[target];
      const std::int64_t amount = side.node == source.node ? 0 : std::min(source.in, side.out);
      splits.Add(source.node, side.node, amount);
      source.in -= amount;
      side.out -= amount;
      if (source.in > 0) ++target;
    }
  }
}

// Spreads the used part of a trunk over its sides in proportion to their capacity. Returns that
// part and leaves the rest in `trunk`.
std::vector<Side> SpreadTrunk(std::vector<Side>& trunk, std::int64_t used_in,
                              std::int64_t used_out) {
  const Int128 total_in = std::max<std::int64_t>(TotalIn(trunk), 1);
  const Int128 total_out = std::max<std::int64_t>(TotalOut(trunk), 1);
  std::vector<Side> used = trunk;
  Int128 in_before = 0;
  Int128 out_before = 0;
  for (std::size_t i = 0; i < trunk.size(); ++i) {
    const Int128 in_after = in_before + trunk[i].in;
    const Int128 out_after = out_before + trunk[i].out;
    used[i].in =
        static_cast<std::int64_t>(in_after * used_in / total_in - in_before * used_in / total_in);
    used[i].out = static_cast<std::int64_t>(out_after * used_out / total_out -
                                            out_before * used_out / total_out);
    trunk[i].in -= used[i].in;
    trunk[i].out -= used[i].out;
    in_before = in_after;
    out_before = out_after;
  }
  return used;
}

// Puts a piece of the trunk behind each block, in proportion to the block. Without blocks (a leaf
// whose hosts take no part), all of the trunk goes to the end.
std::vector<Side> Interleave(std::span<const Side> lower, std::span<const Side> trunk) {
  std::vector<Side> circle;
  const Int128 all = std::max<std::int64_t>(TotalIn(lower) + TotalOut(lower), 1);
  const std::int64_t trunk_in = TotalIn(trunk);
  const std::int64_t trunk_out = TotalOut(trunk);
  Int128 before = 0;
  std::int64_t in_done = 0;
  std::int64_t out_done = 0;
  std::vector<Side> rest(trunk.begin(), trunk.end());
  std::size_t in_at = 0;
  std::size_t out_at = 0;
  for (std::size_t i = 0; i < lower.size(); ++i) {
    circle.push_back(lower[i]);
    before += lower[i].in + lower[i].out;
    if (i + 1 < lower.size() && lower[i + 1].block == lower[i].block) continue;
    std::int64_t in = static_cast<std::int64_t>(before * trunk_in / all) - in_done;
    std::int64_t out = static_cast<std::int64_t>(before * trunk_out / all) - out_done;
    in_done += in;
    out_done += out;
    for (; in > 0; in_at += rest[in_at].in == 0 ? 1 : 0) {
      const std::int64_t amount = std::min(in, rest[in_at].in);
      circle.push_back({rest[in_at].node, 0, amount, 0});
      rest[in_at].in -= amount;
      in -= amount;
    }
    for (; out > 0; out_at += rest[out_at].out == 0 ? 1 : 0) {
      const std::int64_t amount = std::min(out, rest[out_at].out);
      circle.push_back({rest[out_at].node, 0, 0, amount});
      rest[out_at].out -= amount;
      out -= amount;
    }
  }
  std::copy_if(rest.begin(), rest.end(), std::back_inserter(circle),
               [](const Side& side) { return side.in > 0 || side.out > 0; });
  return circle;
}

// Drops capacity: as far as possible, capacity that enters from a side is paired with the capacity
// back to it.
void Drop(std::span<Side> sides, SplitList& splits) {
  for (Side& side : sides) {
    const std::int64_t amount = std::min(side.in, side.out);
    splits.Add(side.node, side.node, amount);
    side.in -= amount;
    side.out -= amount;
  }
  Match(sides, sides, splits);
}

}  // namespace

std::vector<Split> GuessSwitchPairing(const Problem& problem, const SplitGraph& graph,
                                      std::int32_t node, std::span<const std::int32_t> component) {
  std::vector<Side> lower;
  std::vector<Side> trunk;
  const auto tier = [&](std::int32_t n) { return problem.tier[static_cast<std::size_t>(n)]; };
  for (const FlowGraph::Port& port : graph.flows().Ports(node)) {
    const bool is_rank = problem.IsRank(port.node);
    // A switch of the same or a lower tier is a block of its own.
    const std::int32_t block = is_rank ? component[static_cast<std::size_t>(port.node)] : port.node;
    const Side side{port.node, block, graph.flows().capacity(port.out ^ 1),
                    graph.flows().capacity(port.out)};
    (!is_rank && tier(port.node) > tier(node) ? trunk : lower).push_back(side);
  }
  const auto by_block = [](const Side& x, const Side& y) {
    return std::tie(x.block, x.node) < std::tie(y.block, y.node);
  };
  std::sort(lower.begin(), lower.end(), by_block);
  std::sort(trunk.begin(), trunk.end(), by_block);
  if (!lower.empty() && lower.front().block == lower.back().block) {
    for (Side& side : lower) side.block = side.node;
  }
  // Blocks named by a rank and blocks named by a switch cannot collide, as switches are numbered
  // after ranks.
  SplitList splits;
  if (!trunk.empty()) {
    const std::int64_t largest = LargestBlock(lower);
    const std::int64_t excess = TotalIn(trunk) - TotalOut(trunk);
    const std::int64_t used =
        std::min({TotalIn(trunk), TotalOut(trunk), std::max<std::int64_t>(largest, 1)});
    std::vector<Side> taken = SpreadTrunk(trunk, used + std::max<std::int64_t>(excess, 0),
                                          used + std::max<std::int64_t>(-excess, 0));
    Drop(trunk, splits);
    const std::int64_t rotation = std::max(largest, used);
    Rotate(Interleave(lower, taken), rotation, splits);
    return splits.Take();
  }
  Rotate(lower, LargestBlock(lower), splits);
  return splits.Take();
}

std::vector<Split> GuessRankPairing(const SplitGraph& graph, std::int32_t node,
                                    std::span<const std::int32_t> box) {
  std::vector<Side> inside;
  std::vector<Side> outside;
  const auto box_of = [&](std::int32_t n) { return box[static_cast<std::size_t>(n)]; };
  for (const FlowGraph::Port& port : graph.flows().Ports(node)) {
    const Side side{port.node, port.node, graph.flows().capacity(port.out ^ 1),
                    graph.flows().capacity(port.out)};
    (box_of(port.node) == box_of(node) ? inside : outside).push_back(side);
  }
  const auto by_node = [](const Side& x, const Side& y) { return x.node < y.node; };
  std::sort(inside.begin(), inside.end(), by_node);
  std::sort(outside.begin(), outside.end(), by_node);
  std::vector<Side> source{{kSource, kSource, graph.flows().Supply(node), graph.Return(node)}};

  SplitList splits;
  Match(source, inside, splits);
  Match(source, outside, splits);
  Match(inside, source, splits);
  Match(outside, source, splits);
  Match(outside, inside, splits);
  Match(inside, outside, splits);
  std::vector<Side> left = std::move(inside);
  left.insert(left.end(), outside.begin(), outside.end());
  Rotate(left, LargestBlock(left), splits);
  return splits.Take();
}

}  // namespace espalier::forest
