#pragma once

#include <cstdint>
#include <limits>

namespace espalier::graph {

// The neighbour of each vertex by each colour of a (partial) proper edge colouring.
template <typename Vertex>
inline constexpr Vertex kNoVertex = std::numeric_limits<Vertex>::max();

template <typename Vertex>
struct ColorTable {
  Vertex* neighbors = nullptr;  // by vertex and colour; kNoVertex where no edge has it
  std::uint32_t colors = 0;

  Vertex& At(std::uint32_t vertex, std::uint32_t color) const {
    return neighbors[std::size_t{vertex} * colors + color];
  }
};

// Alternating chains to be followed in lock-step: each leaves its vertex along `color`, then
// along `next_color`, then `color`, until a vertex lacks the colour that is due.
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

// The chain that ends first (the lowest of equals) and its number of edges (>= 1). At least one
// chain; all of them end.
struct ChainEnd {
  std::uint32_t chain = 0;
  std::uint32_t steps = 0;
};
ChainEnd FindShortest(ColorTable<std::uint16_t> table, const Chains& chains);
ChainEnd FindShortest(ColorTable<std::uint32_t> table, const Chains& chains);

}  // namespace espalier::graph
