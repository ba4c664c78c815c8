#include "common/graph/edge_coloring.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

#include "common/base/check.h"
#include "common/graph/chain_walk.h"

namespace espalier::graph {
namespace {

constexpr int kAnyWords = 0;  // the number is known at run time only

// A proper edge colouring under construction, in the workspace's arrays. Left and right vertices
// share one numbering, left ones first.
template <typename Vertex, int kWords>
class ProperColoring {
 public:
  ProperColoring(ColorTable<Vertex> table, std::uint64_t* free, std::uint32_t* edge_at,
                 std::uint16_t* color_of, std::uint32_t left_count,
                 std::vector<std::uint32_t>& deferred)
      : table_(table),
        free_(free),
        edge_at_(edge_at),
        color_of_(color_of),
        left_count_(left_count),
        words_(kWords == kAnyWords ? (table.colors + 63) / 64 : kWords),
        deferred_(deferred) {}

  // Returns false if a vertex has more edges than there are colours.
  bool Add(std::span<const BipartiteEdge> edges) {
    // Takes the edges of one left vertex together, so that its masks stay in registers.
    for (std::size_t begin = 0; begin < edges.size();) {
      std::size_t end = begin + 1;
      while (end < edges.size() && edges[end].left == edges[begin].left) ++end;
      if (!AddOfVertex(edges, begin, end)) return false;
      begin = end;
    }
    return true;
  }

  EdgeColoring::Effort effort;

 private:
  static constexpr std::uint32_t kNoColor = std::numeric_limits<std::uint32_t>::max();

  bool AddOfVertex(std::span<const BipartiteEdge> edges, std::size_t begin, std::size_t end) {
    const std::uint32_t left = edges[begin].left;
    const std::uint32_t colors = table_.colors;
    const std::uint32_t words = kWords == kAnyWords ? words_ : kWords;
    const std::uint32_t first_right = left_count_;
    std::uint64_t* const free = free_;
    std::uint64_t* const left_free = free + std::size_t{left} * words;
    Vertex* const neighbors = table_.neighbors;
    Vertex* const left_row = neighbors + std::size_t{left} * colors;
    std::uint32_t* const edge_row = edge_at_ + std::size_t{left} * colors;
    std::uint16_t* const color_of = color_of_;
    std::uint64_t masks[std::max(kWords, 1)];
    for (int word = 0; word < kWords; ++word) masks[word] = left_free[word];
    deferred_.clear();
    for (std::size_t i = begin; i < end; ++i) {
      const std::uint32_t right = first_right + edges[i].right;
      std::uint64_t* const right_free = free + std::size_t{right} * words;
      std::uint64_t* const mine = kWords == kAnyWords ? left_free : masks;
      std::uint32_t word = 0;
      while (word < words && (mine[word] & right_free[word]) == 0) ++word;
      if (word == words) [[unlikely]] {
        deferred_.push_back(static_cast<std::uint32_t>(i));
        continue;
      }
      const std::uint64_t common = mine[word] & right_free[word];
      const std::uint64_t lowest = common & -common;
      mine[word] ^= lowest;
      right_free[word] ^= lowest;
      const std::uint32_t color = 64 * word + static_cast<std::uint32_t>(std::countr_zero(common));
      left_row[color] = static_cast<Vertex>(right);
      neighbors[std::size_t{right} * colors + color] = static_cast<Vertex>(left);
      edge_row[color] = static_cast<std::uint32_t>(i);
      color_of[i] = static_cast<std::uint16_t>(color);
    }
    for (int word = 0; word < kWords; ++word) left_free[word] = masks[word];
    return std::all_of(deferred_.begin(), deferred_.end(), [&](std::uint32_t i) {
      return AddWithChain(left, first_right + edges[i].right, i);
    });
  }

  // Adds an edge whose ends have, or had, no free colour in common.
  bool AddWithChain(std::uint32_t left, std::uint32_t right, std::uint32_t edge) {
    std::uint32_t color = FirstCommon(left, right);
    if (color == kNoColor) color = MakeRoom(left, right);
    if (color == kNoColor) return false;
    Flip(left, color);
    Flip(right, color);
    table_.At(left, color) = static_cast<Vertex>(right);
    table_.At(right, color) = static_cast<Vertex>(left);
    edge_at_[std::size_t{left} * table_.colors + color] = edge;
    color_of_[edge] = static_cast<std::uint16_t>(color);
    return true;
  }

  std::uint32_t FirstCommon(std::uint32_t a, std::uint32_t b) const {
    const std::uint64_t* const x = free_ + std::size_t{a} * words_;
    const std::uint64_t* const y = free_ + std::size_t{b} * words_;
    for (std::uint32_t word = 0; word < words_; ++word) {
      const std::uint64_t common = x[word] & y[word];
      if (common != 0) return 64 * word + static_cast<std::uint32_t>(std::countr_zero(common));
    }
    return kNoColor;
  }

  // Flips a chain of one edge: an edge of `vertex`, whose colour is free at `other`, takes a colour
  // that is free at both of its own ends. Returns its old colour, which is then free at both
  // vertices.
  std::uint32_t RecolorOne(std::uint32_t vertex, std::uint32_t other) {
    const std::uint64_t* const wanted = free_ + std::size_t{other} * words_;
    for (std::uint32_t word = 0; word < words_; ++word) {
      for (std::uint64_t left = wanted[word]; left != 0; left &= left - 1) {
        const std::uint32_t color = 64 * word + static_cast<std::uint32_t>(std::countr_zero(left));
        const std::uint32_t instead = FirstCommon(vertex, table_.At(vertex, color));
        if (instead == kNoColor) continue;
        FlipChain(vertex, color, instead, 1);
        ++effort.chains;
        ++effort.steps;
        return color;
      }
    }
    return kNoColor;
  }

  void Flip(std::uint32_t vertex, std::uint32_t color) {
    free_[std::size_t{vertex} * words_ + color / 64] ^= std::uint64_t{1} << (color % 64);
  }

  // Writes up to `limit` free colours of a vertex to `out`; returns their number.
  std::uint32_t FreeColors(std::uint32_t vertex, std::uint32_t limit, std::uint32_t* out) const {
    std::uint32_t count = 0;
    for (std::uint32_t word = 0; word < words_; ++word) {
      std::uint64_t free = free_[std::size_t{vertex} * words_ + word];
      for (; free != 0; free &= free - 1) {
        out[count++] = 64 * word + static_cast<std::uint32_t>(std::countr_zero(free));
        if (count == limit) return count;
      }
    }
    return count;
  }

  // Flips the shortest of several chains, so that the ends have a free colour in common, and
  // returns that colour. Returns kNoColor if an end has no free colour at all.
  [[gnu::noinline]] std::uint32_t MakeRoom(std::uint32_t left, std::uint32_t right) {
    std::uint32_t left_free[kMaxChains / 2];
    std::uint32_t right_free[kMaxChains / 2];
    constexpr std::uint32_t pairs = kMaxChains / 2;
    const std::uint32_t lefts = FreeColors(left, pairs, left_free);
    const std::uint32_t rights = FreeColors(right, pairs, right_free);
    if (lefts == 0 || rights == 0) return kNoColor;
    if (const std::uint32_t color = RecolorOne(left, right); color != kNoColor) return color;
    if (const std::uint32_t color = RecolorOne(right, left); color != kNoColor) return color;
    // From the right end along a colour that is free at the left end, and vice versa. Pairs that
    // share no colour with each other come first.
    Chains chains;
    for (std::uint32_t shift = 0; shift < rights && chains.count < 2 * pairs; ++shift) {
      for (std::uint32_t i = 0; i < lefts && chains.count < 2 * pairs; ++i) {
        const std::uint32_t a = left_free[i];
        const std::uint32_t b = right_free[(i + shift) % rights];
        chains.Add(right, a, b);
        chains.Add(left, b, a);
      }
    }
    const ChainEnd shortest = FindShortest(table_, chains);
    const std::uint32_t color = chains.color[shortest.chain];
    FlipChain(chains.vertex[shortest.chain], color, chains.next_color[shortest.chain],
              shortest.steps);
    ++effort.chains;
    effort.steps += shortest.steps;
    return color;
  }

  // Exchanges the colours a and b along a chain that starts with an edge of colour a.
  void FlipChain(std::uint32_t vertex, std::uint32_t a, std::uint32_t b, std::uint32_t steps) {
    Flip(vertex, a);
    Flip(vertex, b);
    std::uint32_t along = a;
    for (std::uint32_t step = 0; step < steps; ++step) {
      const std::uint32_t next = table_.At(vertex, along);
      Exchange(vertex, a, b);
      vertex = next;
      along = along == a ? b : a;
    }
    Exchange(vertex, a, b);
    Flip(vertex, a);
    Flip(vertex, b);
  }

  void Exchange(std::uint32_t vertex, std::uint32_t a, std::uint32_t b) {
    std::swap(table_.At(vertex, a), table_.At(vertex, b));
    if (vertex >= left_count_) return;
    std::uint32_t* row = edge_at_ + std::size_t{vertex} * table_.colors;
    std::swap(row[a], row[b]);
    if (table_.At(vertex, a) != kNoVertex<Vertex>)
      color_of_[row[a]] = static_cast<std::uint16_t>(a);
    if (table_.At(vertex, b) != kNoVertex<Vertex>)
      color_of_[row[b]] = static_cast<std::uint16_t>(b);
  }

  ColorTable<Vertex> table_;
  std::uint64_t* free_;
  std::uint32_t* edge_at_;
  std::uint16_t* color_of_;
  std::uint32_t left_count_;
  std::uint32_t words_;
  std::vector<std::uint32_t>& deferred_;  // edges of the current vertex
};

}  // namespace

bool EdgeColoring::ColorProper(std::span<const BipartiteEdge> edges, std::uint32_t left_count,
                               std::uint32_t right_count, std::uint32_t colors) {
  const std::size_t vertices = std::size_t{left_count} + right_count;
  const std::uint32_t words = (colors + 63) / 64;
  free_.assign(vertices * words, ~std::uint64_t{0});
  if (colors % 64 != 0) {
    const std::uint64_t last = (std::uint64_t{1} << (colors % 64)) - 1;
    for (std::size_t i = words - 1; i < free_.size(); i += words) free_[i] = last;
  }
  if (edge_at_.size() < std::size_t{left_count} * colors) {
    edge_at_.resize(std::size_t{left_count} * colors);
  }
  const auto run = [&]<typename Vertex, int kWords>(std::vector<Vertex>& neighbors) {
    const std::size_t entries = vertices * colors;
    if (neighbors.size() < entries) neighbors.resize(entries);
    std::fill_n(neighbors.begin(), entries, static_cast<Vertex>(~Vertex{0}));  // kNoVertex
    ProperColoring<Vertex, kWords> coloring({neighbors.data(), colors}, free_.data(),
                                            edge_at_.data(), colors_.data(), left_count, deferred_);
    const bool done = coloring.Add(edges);
    effort_ = coloring.effort;
    return done;
  };
  const bool is_small = vertices < kNoVertex<std::uint16_t>;
  if (is_small && words == 1) return run.operator()<std::uint16_t, 1>(neighbors16_);
  if (is_small && words == 2) return run.operator()<std::uint16_t, 2>(neighbors16_);
  if (is_small) return run.operator()<std::uint16_t, kAnyWords>(neighbors16_);
  return run.operator()<std::uint32_t, kAnyWords>(neighbors32_);
}

BipartiteEdge EdgeColoring::SplitVertices(std::span<const BipartiteEdge> edges,
                                          std::uint32_t left_count, std::uint32_t right_count,
                                          std::uint32_t colors) {
  left_copies_.assign(left_count, {});
  right_copies_.assign(right_count, {});
  for (const BipartiteEdge& edge : edges) {
    ++left_copies_[edge.left].edges;
    ++right_copies_[edge.right].edges;
  }
  const auto start_copies = [&](std::vector<Copy>& vertices) {
    std::uint32_t copies = 0;
    for (Copy& vertex : vertices) {
      const std::uint32_t degree = std::exchange(vertex.edges, 0);
      vertex.index = copies;
      const std::uint32_t of_vertex = (degree + colors - 1) / colors;
      copies += of_vertex;
      most_per_color_ = std::max(most_per_color_, of_vertex);
    }
    return copies;
  };
  const BipartiteEdge counts{start_copies(left_copies_), start_copies(right_copies_)};
  const auto take = [&](Copy& copy) {
    const std::uint32_t index = copy.index;
    if (++copy.edges == colors) copy = {index + 1, 0};
    return index;
  };
  copies_.resize(edges.size());
  for (std::size_t i = 0; i < edges.size(); ++i) {
    copies_[i] = {take(left_copies_[edges[i].left]), take(right_copies_[edges[i].right])};
  }
  return counts;
}

std::span<const std::uint16_t> EdgeColoring::Color(std::span<const BipartiteEdge> edges,
                                                   std::uint32_t left_count,
                                                   std::uint32_t right_count,
                                                   std::uint32_t colors) {
  ESPALIER_CHECK(colors >= 1 && colors <= kMaxColors, "colors={}", colors);
  ESPALIER_CHECK(edges.size() <= std::numeric_limits<std::int32_t>::max(), "edges={}",
                 edges.size());
  colors_.resize(edges.size());
  most_per_color_ = 1;
  if (ColorProper(edges, left_count, right_count, colors)) return colors_;
  const BipartiteEdge copies = SplitVertices(edges, left_count, right_count, colors);
  const bool done = ColorProper(copies_, copies.left, copies.right, colors);
  ESPALIER_CHECK(done, "edges={} colors={}", edges.size(), colors);
  return colors_;
}

}  // namespace espalier::graph
