#pragma once

#include <cstdint>
#include <limits>

namespace espalier::graph {

// A partial proper edge colouring, as the neighbour of each vertex by colour.
template <typename Vertex>
inline constexpr Vertex kNoVertex = std::numeric_limits<Vertex>::max();

template <typename Vertex>
struct ColorTable {
  Vertex* neighbors = nullptr;  // by vertex and colour; kNoVertex if no edge has the colour
  std::uint32_t colors = 0;

  Vertex& At(std::uint32_t vertex, std::uint32_t color) const {
    return neighbors[std::size_t{vertex} * colors + color];
  }
};

// Alternating (Kempe) chains that are followed in lock-step. Each leaves its vertex along `color`,
// then follows `next_color`, then `color` and so on, until a vertex lacks the next colour.
constexpr std::uint32_t kMaxChains = 8;
struct Chains {
  std::uint32_t count = 0;
  std::uint32_t vertex[kMaxChains];
  std::uint32_t color[kMaxChains];
  std::uint32_t next_color[kMaxChains];

  void Add(std::uint32_t from, std::uint32_t along, std::uint32_t then) {
    vertex[count] = from;
    color[count] = along;
    next_color[count++] = then;
  }
};

// The chain that ends first (the lowest-numbered of equals) and its number of edges (>= 1). There
// must be at least one chain, and all of them must end.
struct ChainEnd {
  std::uint32_t chain = 0;
  std::uint32_t steps = 0;
};
ChainEnd FindShortest(ColorTable<std::uint16_t> table, const Chains& chains);
ChainEnd FindShortest(ColorTable<std::uint32_t> table, const Chains& chains);

}  // namespace espalier::graph
