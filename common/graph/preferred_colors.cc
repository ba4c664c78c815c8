#include "common/graph/preferred_colors.h"

namespace espalier::graph {

void PreferredColors::Improve(std::span<const BipartiteEdge> edges, std::uint32_t left_count,
                              std::uint32_t right_count, std::span<const std::uint8_t> is_preferred,
                              std::span<const std::uint8_t> is_marked,
                              std::span<std::uint32_t> colors) {
  edges_ = edges;
  colors_ = colors;
  count_ = static_cast<std::uint32_t>(is_preferred.size());
  left_at_.assign(std::size_t{left_count} * count_, kNone);
  right_at_.assign(std::size_t{right_count} * count_, kNone);
  for (std::uint32_t edge = 0; edge < edges.size(); ++edge) {
    EdgeAt(false, edges[edge].left, colors[edge]) = edge;
    EdgeAt(true, edges[edge].right, colors[edge]) = edge;
  }
  bool has_gained = true;
  while (has_gained) {
    has_gained = false;
    for (std::uint32_t edge = 0; edge < edges.size(); ++edge) {
      for (std::uint32_t preferred = 0; preferred < count_; ++preferred) {
        const std::uint32_t other = colors[edge];
        if (is_marked[edge] == 0 || is_preferred[other] != 0) break;
        if (is_preferred[preferred] == 0) continue;
        Follow(edge, other, preferred);
        int gain = 0;
        for (const std::uint32_t one : chain_) {
          if (is_marked[one] != 0) gain += colors[one] == other ? 1 : -1;
        }
        if (gain <= 0) continue;
        Exchange(other, preferred);
        has_gained = true;
      }
    }
  }
}

void PreferredColors::Follow(std::uint32_t edge, std::uint32_t other, std::uint32_t preferred) {
  chain_.assign(1, edge);
  for (const bool to_right : {true, false}) {
    bool right = to_right;
    std::uint32_t at = edge;
    while (true) {
      const std::uint32_t color = colors_[at] == other ? preferred : other;
      at = EdgeAt(right, right ? edges_[at].right : edges_[at].left, color);
      if (at == kNone) break;
      if (at == edge) return;  // a cycle
      chain_.push_back(at);
      right = !right;
    }
  }
}

void PreferredColors::Exchange(std::uint32_t other, std::uint32_t preferred) {
  for (const std::uint32_t edge : chain_) {
    for (const bool right : {false, true}) {
      EdgeAt(right, right ? edges_[edge].right : edges_[edge].left, colors_[edge]) = kNone;
    }
  }
  for (const std::uint32_t edge : chain_) {
    colors_[edge] = colors_[edge] == other ? preferred : other;
    for (const bool right : {false, true}) {
      EdgeAt(right, right ? edges_[edge].right : edges_[edge].left, colors_[edge]) = edge;
    }
  }
}

}  // namespace espalier::graph
