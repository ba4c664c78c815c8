#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "common/graph/edge_coloring.h"

namespace espalier::bench {

// Greedy assignment (RLM, Algorithm 1) on flat arrays: each flow takes the first of the spines
// whose busier link carries least.
class FlatGreedy {
 public:
  // Returns the spine of each edge, which is a flow between leaves.
  const std::vector<std::uint16_t>& Assign(std::uint32_t leaves, std::uint32_t spines,
                                           const std::vector<graph::BipartiteEdge>& edges) {
    up_.assign(std::size_t{leaves} * spines, 0);
    down_.assign(up_.size(), 0);
    spines_.resize(edges.size());
    for (std::size_t i = 0; i < edges.size(); ++i) {
      std::uint16_t* up = &up_[std::size_t{edges[i].left} * spines];
      std::uint16_t* down = &down_[std::size_t{edges[i].right} * spines];
      std::uint16_t best = 0;
      std::uint16_t least = 0xFFFF;
      for (std::uint32_t spine = 0; spine < spines; ++spine) {
        const std::uint16_t busier = std::max(up[spine], down[spine]);
        if (busier >= least) continue;
        least = busier;
        best = static_cast<std::uint16_t>(spine);
      }
      ++up[best];
      ++down[best];
      spines_[i] = best;
    }
    return spines_;
  }

 private:
  std::vector<std::uint16_t> up_;
  std::vector<std::uint16_t> down_;
  std::vector<std::uint16_t> spines_;
};

}  // namespace espalier::bench
