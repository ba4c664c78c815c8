#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace espalier::forest {

// The hops from every node to every node, row-major by destination, so that a row holds the
// distances from all sources.
class DistanceTable {
 public:
  static constexpr std::uint16_t kUnreached = 0xFFFF;
  struct Edge {
    std::uint16_t from = 0;
    std::uint16_t to = 0;
  };

  // Computes them breadth-first from 64 sources at a time, one bit each. nodes < 65,535. O(nodes^2
  // + edges * nodes / 64 * levels in which anything changes).
  DistanceTable(std::size_t nodes, std::span<const Edge> edges);

  std::span<const std::uint16_t> To(std::size_t node) const {
    return {hops_.data() + node * nodes_, nodes_};
  }

 private:
  std::size_t nodes_;
  std::vector<std::uint16_t> hops_;
};

}  // namespace espalier::forest
