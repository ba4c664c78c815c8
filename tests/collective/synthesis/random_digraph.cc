#include "tests/collective/synthesis/random_digraph.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace espalier::synthesis {

Digraph MakeRandomRegular(std::int32_t nodes, int degree, std::mt19937_64& random) {
  while (true) {
    std::vector<Arc> arcs;
    while (static_cast<int>(arcs.size()) < degree * nodes) {
      std::vector<std::int32_t> to(static_cast<std::size_t>(nodes));
      std::iota(to.begin(), to.end(), 0);
      std::shuffle(to.begin(), to.end(), random);
      bool has_fixed_point = false;
      for (std::int32_t n = 0; n < nodes; ++n) {
        has_fixed_point = has_fixed_point || to[static_cast<std::size_t>(n)] == n;
      }
      if (has_fixed_point) continue;
      for (std::int32_t n = 0; n < nodes; ++n) {
        arcs.push_back({n, to[static_cast<std::size_t>(n)], 1});
      }
    }
    Digraph graph(nodes, std::move(arcs));
    if (CheckConnected(graph)) return graph;
  }
}

Digraph MakeRandomDigraph(std::int32_t nodes, int arcs, std::int64_t max_capacity,
                          std::mt19937_64& random) {
  const auto draw = [&](std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(random);
  };
  while (true) {
    std::vector<Arc> drawn;
    for (int i = 0; i < arcs; ++i) {
      const auto tail = static_cast<std::int32_t>(draw(0, nodes - 1));
      const auto head = static_cast<std::int32_t>((tail + draw(1, nodes - 1)) % nodes);
      drawn.push_back({tail, head, draw(1, max_capacity)});
    }
    Digraph graph(nodes, std::move(drawn));
    if (CheckConnected(graph)) return graph;
    ++arcs;
  }
}

}  // namespace espalier::synthesis
