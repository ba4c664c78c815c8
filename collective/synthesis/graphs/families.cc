#include "collective/synthesis/graphs/families.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <string>
#include <utility>

namespace espalier::synthesis {
namespace {

std::int32_t Id(std::int64_t node) { return static_cast<std::int32_t>(node); }

Result<void> Require(bool holds, std::string message) {
  if (holds) return {};
  return Fail(ErrorCode::kInvalidArgument, std::move(message));
}

Result<void> CheckNodes(std::int64_t nodes, std::int64_t least) {
  return Require(nodes >= least && nodes <= kMaxNodes,
                 fmt::format("{} nodes are out of range (give {} to {})", nodes, least, kMaxNodes));
}

Result<void> CheckDegree(std::int64_t degree, std::int64_t least) {
  return Require(degree >= least && degree <= kMaxNodes,
                 fmt::format("degree {} is out of range (give {} or more)", degree, least));
}

// Returns the network in which node i has an arc to i + a (mod n) for every step a.
Network Cayley(std::int64_t nodes, std::span<const std::int64_t> steps, std::int64_t capacity = 1) {
  std::vector<Arc> arcs;
  for (std::int64_t i = 0; i < nodes; ++i) {
    for (const std::int64_t step : steps) arcs.push_back({Id(i), Id((i + step) % nodes), capacity});
  }
  Network network{Digraph(Id(nodes), std::move(arcs)), {}};
  for (std::int64_t i = 0; i < nodes; ++i) network.reversal.push_back(Id((nodes - i) % nodes));
  return network;
}

}  // namespace

Result<Network> BuildComplete(std::int64_t nodes) {
  if (auto ok = CheckNodes(nodes, 2); !ok) return Propagate(ok);
  std::vector<std::int64_t> steps(static_cast<std::size_t>(nodes - 1));
  std::iota(steps.begin(), steps.end(), 1);
  return Cayley(nodes, steps);
}

Result<Network> BuildCompleteBipartite(std::int64_t degree) {
  if (auto ok = CheckDegree(degree, 2); !ok) return Propagate(ok);
  if (auto ok = CheckNodes(2 * degree, 2); !ok) return Propagate(ok);
  std::vector<std::int64_t> odd;
  for (std::int64_t step = 1; step < 2 * degree; step += 2) odd.push_back(step);
  return Cayley(2 * degree, odd);
}

Result<Network> BuildBidirectionalRing(std::int64_t degree, std::int64_t nodes) {
  if (auto ok = CheckNodes(nodes, 3); !ok) return Propagate(ok);
  if (auto ok = CheckDegree(degree, 2); !ok) return Propagate(ok);
  if (auto ok = Require(degree % 2 == 0, fmt::format("degree {} of a ring in both directions is "
                                                     "odd (give an even one)",
                                                     degree));
      !ok) {
    return Propagate(ok);
  }
  return Cayley(nodes, std::vector<std::int64_t>{1, nodes - 1}, degree / 2);
}

Result<Network> BuildUnidirectionalRing(std::int64_t degree, std::int64_t nodes) {
  if (auto ok = CheckNodes(nodes, 2); !ok) return Propagate(ok);
  if (auto ok = CheckDegree(degree, 1); !ok) return Propagate(ok);
  return Cayley(nodes, std::vector<std::int64_t>{1}, degree);
}

Result<Network> BuildCirculant(std::int64_t nodes, std::span<const std::int64_t> offsets) {
  if (auto ok = CheckNodes(nodes, 3); !ok) return Propagate(ok);
  const std::set<std::int64_t> distinct(offsets.begin(), offsets.end());
  std::int64_t common = nodes;
  std::vector<std::int64_t> steps;
  for (const std::int64_t offset : distinct) {
    if (auto ok = Require(
            offset >= 1 && 2 * offset < nodes,
            fmt::format("offset {} is out of range (give 1 to {})", offset, (nodes - 1) / 2));
        !ok) {
      return Propagate(ok);
    }
    common = std::gcd(common, offset);
    steps.push_back(offset);
    steps.push_back(nodes - offset);
  }
  if (auto ok = Require(!offsets.empty() && distinct.size() == offsets.size(),
                        "the offsets are missing or not distinct");
      !ok) {
    return Propagate(ok);
  }
  if (auto ok = Require(common == 1, fmt::format("the offsets and the {} nodes have the common "
                                                 "divisor {}, so the network is not connected",
                                                 nodes, common));
      !ok) {
    return Propagate(ok);
  }
  return Cayley(nodes, steps);
}

Result<std::vector<std::int64_t>> BestTwoOffsets(std::int64_t nodes) {
  if (auto ok = CheckNodes(nodes, 7); !ok) return Propagate(ok);
  // The least m with 2 m (m + 1) + 1 >= n: so many nodes lie within m hops.
  std::int64_t m = 1;
  while (2 * m * (m + 1) + 1 < nodes) ++m;
  return std::vector<std::int64_t>{m, m + 1};
}

Result<Network> BuildDirectedCirculant(std::int64_t degree) {
  if (auto ok = CheckDegree(degree, 1); !ok) return Propagate(ok);
  if (auto ok = CheckNodes(degree + 2, 3); !ok) return Propagate(ok);
  std::vector<std::int64_t> steps(static_cast<std::size_t>(degree));
  std::iota(steps.begin(), steps.end(), 1);
  return Cayley(degree + 2, steps);
}

Result<Network> BuildGeneralizedKautz(std::int64_t degree, std::int64_t nodes) {
  if (auto ok = CheckDegree(degree, 1); !ok) return Propagate(ok);
  if (auto ok = CheckNodes(nodes, degree + 1); !ok) return Propagate(ok);
  std::vector<Arc> arcs;
  for (std::int64_t x = 0; x < nodes; ++x) {
    for (std::int64_t a = 1; a <= degree; ++a) {
      const std::int64_t y = (degree * x + a) % nodes;
      arcs.push_back({Id(x), Id((nodes - y) % nodes), 1});
    }
  }
  return Network{Digraph(Id(nodes), std::move(arcs)), {}};
}

Result<Network> BuildDeBruijn(std::int64_t degree, std::int64_t length) {
  if (auto ok = CheckDegree(degree, 2); !ok) return Propagate(ok);
  std::int64_t nodes = 1;
  for (std::int64_t i = 0; i < length && nodes <= kMaxNodes; ++i) nodes *= degree;
  if (auto ok = CheckNodes(nodes, 2); !ok) return Propagate(ok);
  std::vector<Arc> arcs;
  Network network;
  for (std::int64_t x = 0; x < nodes; ++x) {
    for (std::int64_t a = 0; a < degree; ++a) {
      arcs.push_back({Id(x), Id((degree * x + a) % nodes), 1});
    }
    std::int64_t mirrored = 0;
    for (std::int64_t rest = x, i = 0; i < length; ++i, rest /= degree) {
      mirrored = mirrored * degree + rest % degree;
    }
    network.reversal.push_back(Id(mirrored));
  }
  network.graph = Digraph(Id(nodes), std::move(arcs));
  return network;
}

Result<Network> BuildHamming(std::int64_t dimension, std::int64_t size) {
  auto network = BuildComplete(size);
  if (!network) return network;
  if (auto ok = Require(dimension >= 1 && dimension < 64,
                        fmt::format("dimension {} is out of range (give 1 to 14)", dimension));
      !ok) {
    return Propagate(ok);
  }
  const Network complete = *network;
  for (std::int64_t i = 1; i < dimension && network; ++i)
    network = BuildProduct(*network, complete);
  return network;
}

Result<Network> BuildTorusNetwork(std::span<const std::int64_t> dimensions) {
  if (auto ok = Require(!dimensions.empty(), "a torus needs at least one dimension"); !ok) {
    return Propagate(ok);
  }
  Result<Network> torus = Network();
  bool is_first = true;
  for (const std::int64_t size : dimensions) {
    auto ring = size == 2 ? BuildComplete(2) : BuildBidirectionalRing(2, size);
    if (!ring) return ring;
    torus = is_first ? std::move(ring) : BuildProduct(*torus, *ring);
    if (!torus) return torus;
    is_first = false;
  }
  return torus;
}

Result<Network> BuildProduct(const Network& a, const Network& b) {
  const std::int64_t size = b.graph.node_count();
  const std::int64_t nodes = a.graph.node_count() * size;
  if (auto ok = CheckNodes(nodes, 2); !ok) return Propagate(ok);
  if (auto ok = Require(!a.graph.has_self_loops() && !b.graph.has_self_loops(),
                        "a network with self-loops cannot be expanded");
      !ok) {
    return Propagate(ok);
  }
  std::vector<Arc> arcs;
  for (std::int64_t i = 0; i < size; ++i) {
    for (const Arc& arc : a.graph.arcs()) {
      arcs.push_back({Id(arc.tail * size + i), Id(arc.head * size + i), arc.capacity});
    }
  }
  for (std::int64_t i = 0; i < a.graph.node_count(); ++i) {
    for (const Arc& arc : b.graph.arcs()) {
      arcs.push_back({Id(i * size + arc.tail), Id(i * size + arc.head), arc.capacity});
    }
  }
  Network product{Digraph(Id(nodes), std::move(arcs)), {}};
  if (a.reversal.empty() || b.reversal.empty()) return product;
  for (const std::int32_t x : a.reversal) {
    for (const std::int32_t y : b.reversal) product.reversal.push_back(Id(x * size + y));
  }
  return product;
}

}  // namespace espalier::synthesis
