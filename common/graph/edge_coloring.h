#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace espalier::graph {

// An edge of a bipartite multigraph.
struct BipartiteEdge {
  std::uint32_t left = 0;
  std::uint32_t right = 0;
};

// Computes an equitable edge colouring of a bipartite multigraph with S colours: at every vertex of
// degree d each colour occurs floor(d / S) or ceil(d / S) times (de Werra, 1971). With flows as
// edges between source and destination leaves and spines as colours, this minimises the number of
// flows on the busiest link of every leaf, for all leaves at once. If S is at least the maximum
// degree, no two edges of a vertex share a colour (Konig, 1916).
//
// Method: each vertex of degree d is split into ceil(d / S) copies, all but the last of degree S;
// any proper S-colouring of the copies is then a solution. Edges are coloured left vertex by left
// vertex, with a bit mask of free colours per copy. Edges whose ends have no free colour in common
// are deferred until the vertex's other edges are coloured (which saves a quarter of the chains).
// Then a single edge of either end is recoloured, if the masks show that this is possible.
// Otherwise an alternating (Kempe) chain is flipped, of a colour a that is free at one end and a
// colour b that is free at the other; after that, both ends have a free colour in common. Up to 8
// such chains, from both ends and for several (a, b), are followed in lock-step and the shortest is
// flipped, because the steps are dependent cache misses and flipping costs more than following.
//
// Complexity: O(edges x words) + the chains, each O(copies) long in the worst case and a few steps
// on average. Measured by tests/bench/assignment_bench.cc: see docs/benchmarks.md. Edges that are
// sorted by left end are the fastest.
// Deterministic.
// Thread safety: one thread per workspace; a reused workspace allocates nothing.
class EdgeColoring {
 public:
  static constexpr std::uint32_t kMaxColors = 4'096;

  // The colour (0 to colors - 1) of each edge, valid until the next call. `colors` from 1 to
  // kMaxColors; edge ends below left_count and right_count.
  std::span<const std::uint16_t> Color(std::span<const BipartiteEdge> edges,
                                       std::uint32_t left_count, std::uint32_t right_count,
                                       std::uint32_t colors);

  // The work of the last call.
  struct Effort {
    std::int64_t chains = 0;  // edges whose ends had no free colour in common
    std::int64_t steps = 0;   // edges of the chains that were flipped
  };
  const Effort& effort() const { return effort_; }
  // How often a vertex has one colour at most, after the last call; at least 1.
  std::uint32_t most_per_color() const { return most_per_color_; }

 private:
  // Computes a proper colouring; returns false if a vertex has more edges than colours.
  bool ColorProper(std::span<const BipartiteEdge> edges, std::uint32_t left_count,
                   std::uint32_t right_count, std::uint32_t colors);
  // Splits the vertices of `edges` into copies of degree `colors` at most; returns the numbers of
  // left and right copies.
  BipartiteEdge SplitVertices(std::span<const BipartiteEdge> edges, std::uint32_t left_count,
                              std::uint32_t right_count, std::uint32_t colors);

  struct Copy {
    std::uint32_t index = 0;
    std::uint32_t edges = 0;
  };

  Effort effort_;
  std::uint32_t most_per_color_ = 1;
  std::vector<std::uint64_t> free_;         // by vertex: mask of its free colours
  std::vector<std::uint16_t> neighbors16_;  // by vertex and colour
  std::vector<std::uint32_t> neighbors32_;  // the same, for more vertices than 16 bits can number
  std::vector<std::uint32_t> edge_at_;      // by left vertex and colour
  std::vector<std::uint32_t> deferred_;  // edges of the current vertex without a common free colour
  std::vector<std::uint16_t> colors_;    // by edge: the result
  std::vector<BipartiteEdge> copies_;    // the edges, between copies of the vertices
  std::vector<Copy> left_copies_;        // by vertex: the copy that gets its next edge
  std::vector<Copy> right_copies_;
};

}  // namespace espalier::graph
