#include "tests/collective/forest/random_problem.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>

namespace espalier::forest {

using fabric::Link;
using fabric::NodeId;
using fabric::NodeKind;
using fabric::TopologySpec;

namespace {

// The same seed gives the same numbers on every machine (std's distributions need not).
std::int64_t Pick(std::int64_t low, std::int64_t high, std::mt19937_64& random) {
  return low + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(high - low + 1));
}

void Join(TopologySpec& spec, std::int64_t a, std::int64_t b, std::int64_t rate, bool directed) {
  Link& link = spec.links.emplace_back();
  link.a = NodeId(static_cast<std::int32_t>(a));
  link.b = NodeId(static_cast<std::int32_t>(b));
  link.rate = BitsPerSecond{rate};
  link.directed = directed;
}

}  // namespace

TopologySpec MakeRandomGraph(const RandomGraphOptions& options, std::mt19937_64& random) {
  TopologySpec spec;
  const std::int64_t ranks = Pick(2, options.max_ranks, random);
  const std::int64_t nodes = ranks + Pick(0, options.max_switches, random);
  for (std::int64_t i = 0; i < nodes; ++i) {
    auto& node = spec.nodes.emplace_back();
    node.id = fmt::format("n{}", i);
    node.kind = i < ranks ? NodeKind::kCompute : NodeKind::kSwitch;
    node.host = i % 3 == 0 ? "" : "h";
  }
  const std::int64_t top = Pick(0, 1, random) == 0 ? Pick(1, 4, random) : options.max_rate;
  std::vector<std::int64_t> order(static_cast<std::size_t>(nodes));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  for (std::int64_t circle = Pick(1, 4, random); circle > 0; --circle) {
    std::shuffle(order.begin(), order.end(), random);
    const std::int64_t length = Pick(2, nodes, random);
    const std::int64_t rate = Pick(1, top, random);
    for (std::int64_t i = 0; i < length; ++i) {
      Join(spec, order[static_cast<std::size_t>(i)],
           order[static_cast<std::size_t>((i + 1) % length)], rate, true);
    }
  }
  for (std::int64_t link = Pick(nodes - 1, 2 * nodes, random); link > 0; --link) {
    const std::int64_t a = Pick(0, nodes - 1, random);
    const std::int64_t b = Pick(0, nodes - 1, random);
    if (a != b) Join(spec, a, b, Pick(1, top, random), false);
  }
  return spec;
}

std::vector<std::int64_t> MakeRandomWeights(std::size_t ranks, std::mt19937_64& random) {
  std::vector<std::int64_t> weights;
  if (Pick(0, 2, random) != 0) return weights;
  for (std::size_t i = 0; i < ranks; ++i) weights.push_back(Pick(0, 4, random));
  weights[0] = std::max<std::int64_t>(weights[0], 1);
  return weights;
}

std::optional<Rational> EnumerateCuts(const Problem& problem) {
  const std::uint32_t all_ranks = (1U << problem.rank_count) - 1;
  Rational largest;
  for (std::uint32_t set = 1; set < (1U << problem.node_count); ++set) {
    if ((set & all_ranks) == all_ranks) continue;
    std::int64_t weight = 0;
    for (std::int32_t rank = 0; rank < problem.rank_count; ++rank) {
      if ((set >> rank & 1) != 0) weight += problem.weight[static_cast<std::size_t>(rank)];
    }
    if (weight == 0) continue;
    std::int64_t leaving = 0;
    for (const Arc& arc : problem.arcs) {
      if ((set >> arc.tail & 1) != 0 && (set >> arc.head & 1) == 0) leaving += arc.capacity;
    }
    if (leaving == 0) return std::nullopt;
    if (Int128{weight} * largest.denominator() > largest.numerator() * Int128{leaving}) {
      largest = Rational(weight, leaving);
    }
  }
  return largest;
}

}  // namespace espalier::forest
