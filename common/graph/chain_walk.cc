#include "common/graph/chain_walk.h"

#include <algorithm>
#include <bit>

#include "common/base/check.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace espalier::graph {
namespace {

// With the number of chains known the compiler keeps them in registers, and their loads overlap.
// Chains are repeated to fill the number.
template <typename Vertex, std::uint32_t kCount>
ChainEnd FollowAll(ColorTable<Vertex> table, const Chains& chains) {
  const Vertex* at[kCount];  // the row of the vertex
  std::uint32_t color[kCount];
  std::uint32_t flip[kCount];  // color ^ next_color
#pragma GCC unroll 16
  for (std::uint32_t i = 0; i < kCount; ++i) {
    const std::uint32_t chain = i < chains.count ? i : 0;
    at[i] = &table.At(chains.vertex[chain], 0);
    color[i] = chains.color[chain];
    flip[i] = chains.color[chain] ^ chains.next_color[chain];
  }
  for (std::uint32_t steps = 0;; ++steps) {
    bool ends = false;
    std::uint32_t next[kCount];
#pragma GCC unroll 16
    for (std::uint32_t i = 0; i < kCount; ++i) {
      next[i] = at[i][color[i]];
      ends |= next[i] == kNoVertex<Vertex>;
    }
    if (ends) {
      std::uint32_t chain = 0;
      while (next[chain] != kNoVertex<Vertex>) ++chain;
      return {chain, steps};
    }
#pragma GCC unroll 16
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
  if (chains.count <= 8) return FollowAll<Vertex, 8>(table, chains);
  return FollowAll<Vertex, kMaxChains>(table, chains);
}

}  // namespace

ChainEnd FindShortest(ColorTable<std::uint16_t> table, const Chains& chains) {
  return Follow(table, chains);
}

ChainEnd FindShortest(ColorTable<std::uint32_t> table, const Chains& chains) {
  return Follow(table, chains);
}

#if defined(__x86_64__)

bool MachineHasGathers() { return __builtin_cpu_supports("avx512f"); }

namespace {

template <typename Vertex>
__attribute__((target("avx512f"))) ChainEnd FollowByGathers(ColorTable<Vertex> table,
                                                            const Chains& chains) {
  // Lanes without a chain repeat the first.
  alignas(64) std::uint32_t vertices[kMaxChains];
  alignas(64) std::uint32_t colors[kMaxChains];
  alignas(64) std::uint32_t flips[kMaxChains];
  for (std::uint32_t i = 0; i < kMaxChains; ++i) {
    const std::uint32_t chain = i < chains.count ? i : 0;
    vertices[i] = chains.vertex[chain];
    colors[i] = chains.color[chain];
    flips[i] = chains.color[chain] ^ chains.next_color[chain];
  }
  const __m512i none = _mm512_set1_epi32(static_cast<int>(kNoVertex<Vertex>));
  const __m512i row_length = _mm512_set1_epi32(static_cast<int>(table.colors));
  const __m512i flip = _mm512_load_si512(flips);
  __m512i vertex = _mm512_load_si512(vertices);
  __m512i color = _mm512_load_si512(colors);
  for (std::uint32_t steps = 0;; ++steps) {
    const __m512i entry = _mm512_add_epi32(_mm512_mullo_epi32(vertex, row_length), color);
    __m512i next =
        _mm512_mask_i32gather_epi32(none, 0xFFFF, entry, table.neighbors, sizeof(Vertex));
    if constexpr (sizeof(Vertex) == 2) next = _mm512_and_si512(next, none);
    const __mmask16 ends = _mm512_cmpeq_epi32_mask(next, none);
    if (ends != 0) return {static_cast<std::uint32_t>(std::countr_zero(ends)), steps};
    vertex = next;
    color = _mm512_xor_si512(color, flip);
  }
}

}  // namespace

ChainEnd FindShortestByGathers(ColorTable<std::uint16_t> table, const Chains& chains) {
  return FollowByGathers(table, chains);
}

ChainEnd FindShortestByGathers(ColorTable<std::uint32_t> table, const Chains& chains) {
  return FollowByGathers(table, chains);
}

#else

bool MachineHasGathers() { return false; }

ChainEnd FindShortestByGathers(ColorTable<std::uint16_t> table, const Chains& chains) {
  return Follow(table, chains);
}

ChainEnd FindShortestByGathers(ColorTable<std::uint32_t> table, const Chains& chains) {
  return Follow(table, chains);
}

#endif

}  // namespace espalier::graph
