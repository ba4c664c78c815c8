#include "collective/forest/flow/shortest_distances.h"

#include <algorithm>
#include <bit>

namespace espalier::forest {

DistanceTable::DistanceTable(std::size_t nodes, std::span<const Edge> edges)
    : nodes_(nodes), hops_(nodes * nodes, kUnreached) {
  constexpr std::size_t kLanes = 64;
  std::vector<std::size_t> begin(nodes + 1, 0);
  for (const Edge& edge : edges) ++begin[edge.from + std::size_t{1}];
  for (std::size_t v = 0; v < nodes; ++v) begin[v + 1] += begin[v];
  std::vector<std::uint16_t> heads(edges.size());
  std::vector<std::size_t> place(begin.begin(), begin.end() - 1);
  for (const Edge& edge : edges) heads[place[edge.from]++] = edge.to;

  std::vector<std::uint64_t> seen(nodes);
  std::vector<std::uint64_t> arriving(nodes);
  std::vector<std::uint64_t> leaving(nodes);
  std::vector<std::uint16_t> active;
  std::vector<std::uint16_t> touched;
  for (std::size_t first = 0; first < nodes; first += kLanes) {
    std::fill(seen.begin(), seen.end(), 0);
    active.clear();
    for (std::size_t lane = 0; lane < std::min(kLanes, nodes - first); ++lane) {
      const std::size_t source = first + lane;
      seen[source] = leaving[source] = std::uint64_t{1} << lane;
      hops_[source * nodes + source] = 0;
      active.push_back(static_cast<std::uint16_t>(source));
    }
    for (std::uint16_t level = 1; !active.empty(); ++level) {
      touched.clear();
      for (const std::uint16_t v : active) {
        for (std::size_t e = begin[v]; e < begin[v + std::size_t{1}]; ++e) {
          const std::uint16_t head = heads[e];
          const std::uint64_t fresh = leaving[v] & ~seen[head];
          if (fresh == 0) continue;
          if (arriving[head] == 0) touched.push_back(head);
          arriving[head] |= fresh;
        }
      }
      active.clear();
      for (const std::uint16_t v : touched) {
        std::uint64_t bits = arriving[v];
        arriving[v] = 0;
        seen[v] |= bits;
        leaving[v] = bits;
        active.push_back(v);
        std::uint16_t* const row = hops_.data() + v * nodes + first;
        for (; bits != 0; bits &= bits - 1) row[std::countr_zero(bits)] = level;
      }
    }
  }
}

}  // namespace espalier::forest
