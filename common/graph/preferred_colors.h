#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/graph/edge_coloring.h"

namespace espalier::graph {

// Moves marked edges of a proper edge colouring to preferred colours, as far as exchanges reach.
//
// The edges of one preferred and one other colour form paths and even cycles (Kempe chains), on
// each of which the two colours can be exchanged. That is done where it moves more marked edges to
// the preferred colour than away from it, until no chain gains: each exchange lowers the number of
// marked edges of other colours. The result need not be the best. Deterministic. Thread safety: one
// thread per workspace.
class PreferredColors {
 public:
  // `colors`: by edge, a proper colouring, which is changed into another one. `is_preferred` by
  // colour and `is_marked` by edge are 0 or 1. O(edges + rounds x preferred colours x others x
  // marked edges of a colour x length of chains); a few rounds.
  void Improve(std::span<const BipartiteEdge> edges, std::uint32_t left_count,
               std::uint32_t right_count, std::span<const std::uint8_t> is_preferred,
               std::span<const std::uint8_t> is_marked, std::span<std::uint32_t> colors);

 private:
  static constexpr std::uint32_t kNone = 0xFFFF'FFFF;

  std::uint32_t& EdgeAt(bool right, std::uint32_t vertex, std::uint32_t color) {
    return (right ? right_at_ : left_at_)[std::size_t{vertex} * count_ + color];
  }
  // Fills chain_ with the chain of both colours that holds this edge.
  void Follow(std::uint32_t edge, std::uint32_t other, std::uint32_t preferred);
  void Exchange(std::uint32_t other, std::uint32_t preferred);

  std::span<const BipartiteEdge> edges_;
  std::span<std::uint32_t> colors_;
  std::uint32_t count_ = 0;             // of colours
  std::vector<std::uint32_t> left_at_;  // by vertex and colour: the edge
  std::vector<std::uint32_t> right_at_;
  std::vector<std::uint32_t> chain_;
};

}  // namespace espalier::graph
