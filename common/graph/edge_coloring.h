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

// Equitable edge colouring of a bipartite multigraph with S colours: at every vertex of degree d
// each colour occurs floor(d / S) or ceil(d / S) times (de Werra, 1971). So with flows as edges
// between source and destination leaves and spines as colours, no leaf's up or down link can
// carry fewer at its busiest: the optimum for all leaves at once. With S >= the maximum degree no
// two edges of a vertex share a colour (Konig, 1916).
//
// Method: each vertex of degree d becomes ceil(d / S) copies, all but the last of degree S; any
// proper S-colouring of the copies is what is wanted. Edges are coloured left vertex by left
// vertex, with a bit mask of free colours a copy. Those whose ends have no free colour in common
// wait until the vertex's others have theirs (a quarter fewer chains); then a single edge of
// either end is recoloured if the masks tell that it can be, and where none can, an alternating
// (Kempe) chain of a colour a free at one end and b free at the other is flipped, after which one
// is common: up to 8 such chains are followed in lock-step, from both
// ends and for several (a, b), and the shortest is taken, as the steps are cache misses that wait
// for each other and flipping costs more than looking.
//
// Complexity: O(edges x words) + the chains, which are O(copies) long at worst each and a few
// steps on average. Measured by tests/bench/assignment_bench.cc: see docs/benchmarks.md. Edges in
// the order of their left ends are the fastest.
// Deterministic.
// Thread safety: one thread per workspace; a workspace that is used again allocates nothing.
class EdgeColoring {
 public:
  static constexpr std::uint32_t kMaxColors = 4'096;

  // The colour (0 to colors - 1) of each edge, valid until the next call. `colors` from 1 to
  // kMaxColors; edge ends below left_count and right_count.
  std::span<const std::uint16_t> Color(std::span<const BipartiteEdge> edges,
                                       std::uint32_t left_count, std::uint32_t right_count,
                                       std::uint32_t colors);

  // What the last call had to do.
  struct Effort {
    std::int64_t chains = 0;  // edges whose ends had no free colour in common
    std::int64_t steps = 0;   // edges of the chains that were flipped
  };
  const Effort& effort() const { return effort_; }

 private:
  // Proper colouring; false where a vertex turns out to have more edges than colours.
  bool ColorProper(std::span<const BipartiteEdge> edges, std::uint32_t left_count,
                   std::uint32_t right_count, std::uint32_t colors);
  // The vertices of `edges` become copies of degree `colors` at most; how many there are.
  BipartiteEdge SplitVertices(std::span<const BipartiteEdge> edges, std::uint32_t left_count,
                              std::uint32_t right_count, std::uint32_t colors);

  struct Copy {
    std::uint32_t index = 0;
    std::uint32_t edges = 0;
  };

  Effort effort_;
  std::vector<std::uint64_t> free_;         // by vertex: colours that none of its edges has
  std::vector<std::uint16_t> neighbors16_;  // by vertex and colour
  std::vector<std::uint32_t> neighbors32_;  // the same where there are too many vertices
  std::vector<std::uint32_t> edge_at_;      // by left vertex and colour
  std::vector<std::uint32_t> deferred_;     // of the vertex in hand, for want of a common colour
  std::vector<std::uint16_t> colors_;       // by edge: the result
  std::vector<BipartiteEdge> copies_;       // the edges between copies of the vertices
  std::vector<Copy> left_copies_;           // by vertex: the copy that gets its next edge
  std::vector<Copy> right_copies_;
};

}  // namespace espalier::graph
