#include "common/graph/chain_walk.h"

#include "common/base/check.h"

namespace espalier::graph {
namespace {

// Follows a constant number of chains, so that the compiler keeps them in registers and their loads
// overlap. Chains are repeated to reach that number.
template <typename Vertex, std::uint32_t kCount>
ChainEnd FollowAll(ColorTable<Vertex> table, const Chains& chains) {
  const Vertex* at[kCount];  // row of the current vertex
  std::uint32_t color[kCount];
  std::uint32_t flip[kCount];  // color ^ next_color
#pragma GCC unroll 8
  for (std::uint32_t i = 0; i < kCount; ++i) {
    const std::uint32_t chain = i < chains.count ? i : 0;
    at[i] = &table.At(chains.vertex[chain], 0);
    color[i] = chains.color[chain];
    flip[i] = chains.color[chain] ^ chains.next_color[chain];
  }
  for (std::uint32_t steps = 0;; ++steps) {
    bool ends = false;
    std::uint32_t next[kCount];
#pragma GCC unroll 8
    for (std::uint32_t i = 0; i < kCount; ++i) {
      next[i] = at[i][color[i]];
      ends |= next[i] == kNoVertex<Vertex>;
    }
    if (ends) {
      std::uint32_t chain = 0;
      while (next[chain] != kNoVertex<Vertex>) ++chain;
      return {chain, steps};
    }
#pragma GCC unroll 8
    for (std::uint32_t i = 0; i < kCount; ++i) {
      at[i] = &table.At(next[i], 0);
      color[i] ^= flip[i];
    }
  }
}

template <typename Vertex>
ChainEnd Follow(ColorTable<Vertex> table, const Chains& chains) {
  ESPALIER_CHECK(chains.count >= 1 && chains.count <= kMaxChains, "count={}", chains.count);
  if (chains.count <= 2) return FollowAll<Vertex, 2>(table, chains);
  if (chains.count <= 4) return FollowAll<Vertex, 4>(table, chains);
  return FollowAll<Vertex, kMaxChains>(table, chains);
}

}  // namespace

ChainEnd FindShortest(ColorTable<std::uint16_t> table, const Chains& chains) {
  return Follow(table, chains);
}

ChainEnd FindShortest(ColorTable<std::uint32_t> table, const Chains& chains) {
  return Follow(table, chains);
}

}  // namespace espalier::graph
