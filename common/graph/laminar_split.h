#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "common/graph/edge_coloring.h"

namespace espalier::graph {

// A tier of blocks of leaves (leaves, pods, ...), as LaminarColoring sees it.
struct LaminarTier {
  std::span<const std::uint32_t> block_of;  // by leaf; empty: each leaf is a block
  std::uint32_t blocks = 0;
  // By top of a block of this tier: the first of the tops above it; one more at the end. Each top
  // has at most EdgeColoring::kMaxColors above it, and at least one.
  std::span<const std::uint32_t> first_above;
  std::int64_t rate = 1;  // of the links above this tier, in any unit

  std::uint32_t BlockOf(std::uint32_t leaf) const {
    return block_of.empty() ? leaf : block_of[leaf];
  }
  std::uint32_t tops() const { return static_cast<std::uint32_t>(first_above.size()) - 1; }
  std::uint32_t tops_above() const { return first_above.back(); }
};

// The lowest tier whose blocks hold both ends of an edge; tiers.size() if none does.
std::size_t HeightOf(const BipartiteEdge& edge, std::span<const LaminarTier> tiers);

// Evens out a colouring of flows, so that blocks above the coloured tier have each colour evenly,
// too.
//
// Idea: two colours are exchanged for a colouring of their flows in which, for every block of every
// tier, both occur equally often, or one of them once more. Flows of a block are paired, those left
// over of its parent, and so on, on either side. Each flow is then in at most one pair of either
// side. Pairs form paths and even cycles, along which the two colours alternate (an Euler split).
// Flows of different heights are paired apart, so that the sets that are halved are nested.
// Each such step lowers the sum of the squares of all counts, and no count grows above the greater
// of both that it replaces. Cost: O(flows of both colours) for each of them.
// Thread safety: one thread per workspace.
class LaminarSplit {
 public:
  // Recolours edges[index[i]], of colour colors[i] (below `count`), until no block of a tier above
  // `tier` has more than limits[tier of the block] flows of a colour that leave it, or nothing more
  // is gained.
  void Balance(std::span<const BipartiteEdge> edges, std::span<const std::uint32_t> index,
               std::span<const LaminarTier> tiers, std::size_t tier, std::uint32_t count,
               std::span<const std::int64_t> limits, std::span<std::uint32_t> colors);

 private:
  static constexpr std::uint32_t kNone = 0xFFFF'FFFF;

  std::uint32_t BlockAt(std::uint32_t flow, std::size_t tier, std::size_t side) const;
  std::uint32_t& CountOf(std::size_t tier, std::size_t side, std::uint32_t block,
                         std::uint32_t color) {
    return counts_[2 * tier + side][std::size_t{block} * count_ + color];
  }
  // Exchanges colours a and b.
  void Split(std::uint32_t a, std::uint32_t b);
  void PairFlows(std::size_t side);
  void Alternate();

  std::span<const BipartiteEdge> edges_;
  std::span<const std::uint32_t> index_;
  std::span<const LaminarTier> tiers_;
  std::span<std::uint32_t> colors_;
  std::size_t tier_ = 0;
  std::uint32_t count_ = 0;
  std::vector<std::uint32_t> heights_;               // by flow
  std::vector<std::vector<std::uint32_t>> flows_;    // by colour
  std::vector<std::vector<std::uint32_t>> counts_;   // by tier and side, then block and colour
  std::vector<std::uint32_t> both_;                  // the flows of both colours
  std::array<std::vector<std::uint32_t>, 2> pairs_;  // by place in both_: the other one of its pair
  std::vector<std::uint32_t> open_;                  // by block and height: a flow without a pair
  std::vector<std::uint32_t> touched_;
  std::vector<std::uint32_t> next_touched_;
  std::vector<std::uint8_t> half_;
};

}  // namespace espalier::graph
