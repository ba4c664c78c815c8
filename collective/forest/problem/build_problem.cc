#include "collective/forest/problem/build_problem.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <queue>
#include <span>
#include <utility>

#include "collective/forest/problem/circulation.h"
#include "common/base/check.h"

namespace espalier::forest {

using fabric::DirectedLink;
using fabric::LinkState;
using fabric::Node;
using fabric::NodeId;
using fabric::NodeKind;
using fabric::Topology;

namespace {

constexpr std::int32_t kNotANode = -1;

Result<std::vector<NodeId>> ListRanks(const Topology& topology, const ProblemOptions& options) {
  std::vector<NodeId> ranks = options.ranks;
  if (ranks.empty()) {
    for (std::size_t i = 0; i < topology.nodes().size(); ++i) {
      if (topology.nodes()[i].kind == NodeKind::kCompute) {
        ranks.emplace_back(static_cast<std::int32_t>(i));
      }
    }
  }
  if (ranks.size() < 2) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("a collective needs at least two compute nodes, but {}",
                            ranks.empty() ? "there is none" : "there is one"));
  }
  if (ranks.size() > kMaxRanks) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{} compute nodes are more than the {} that a forest can have (its "
                            "parent arrays alone would take {} GiB)",
                            ranks.size(), kMaxRanks, (ranks.size() * ranks.size() * 2) >> 30));
  }
  std::vector<bool> seen(topology.nodes().size(), false);
  for (const NodeId rank : ranks) {
    const Node& node = topology.node(rank);
    if (node.kind != NodeKind::kCompute) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("{} cannot take part in collectives: it is a {}", node.id,
                              fabric::NodeKindName(node.kind)));
    }
    if (seen[rank.Index()]) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("{} is listed as a rank twice", node.id));
    }
    seen[rank.Index()] = true;
  }
  return ranks;
}

Result<std::vector<std::int64_t>> ReduceWeights(const ProblemOptions& options,
                                                std::size_t rank_count) {
  if (options.weights.empty()) return std::vector<std::int64_t>(rank_count, 1);
  if (options.weights.size() != rank_count) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{} weights for {} ranks", options.weights.size(), rank_count));
  }
  std::int64_t divisor = 0;
  Int128 total = 0;
  for (const std::int64_t weight : options.weights) {
    if (weight < 0) return Fail(ErrorCode::kInvalidArgument, "a weight is negative");
    divisor = std::gcd(divisor, weight);
    total += weight;
  }
  if (divisor == 0) {
    return Fail(ErrorCode::kInvalidArgument, "all weights are zero, so no rank sends");
  }
  if (!ToInt64(total)) {
    return Fail(ErrorCode::kResourceExhausted, "the sum of the weights exceeds 63 bits");
  }
  std::vector<std::int64_t> weights = options.weights;
  for (std::int64_t& weight : weights) weight /= divisor;
  return weights;
}

// Computes the hops from every node to the nearest compute node, whatever the state of the links.
std::vector<std::int32_t> ComputeTiers(const Topology& topology) {
  std::vector<std::vector<std::int32_t>> neighbours(topology.nodes().size());
  for (const fabric::Link& link : topology.links()) {
    neighbours[link.a.Index()].push_back(link.b.value());
    neighbours[link.b.Index()].push_back(link.a.value());
  }
  std::vector<std::int32_t> tiers(topology.nodes().size(), -1);
  std::queue<std::int32_t> open;
  for (std::size_t i = 0; i < tiers.size(); ++i) {
    if (topology.nodes()[i].kind != NodeKind::kCompute) continue;
    tiers[i] = 0;
    open.push(static_cast<std::int32_t>(i));
  }
  while (!open.empty()) {
    const auto node = static_cast<std::size_t>(open.front());
    open.pop();
    for (const std::int32_t next : neighbours[node]) {
      if (tiers[static_cast<std::size_t>(next)] >= 0) continue;
      tiers[static_cast<std::size_t>(next)] = tiers[node] + 1;
      open.push(next);
    }
  }
  return tiers;
}

void AddNodes(const Topology& topology, std::span<const NodeId> ranks, Problem& problem,
              std::vector<std::int32_t>& index) {
  const std::vector<std::int32_t> tiers = ComputeTiers(topology);
  const auto add = [&](NodeId id) {
    const Node& node = topology.node(id);
    index[id.Index()] = problem.node_count++;
    problem.topology_node.push_back(id);
    problem.names.push_back(node.id);
    problem.tier.push_back(tiers[id.Index()]);
    problem.in_fabric.push_back(node.kind == NodeKind::kSwitch && node.host.empty());
    problem.multicast.push_back(node.multicast);
    problem.reduce.push_back(node.reduce);
  };
  for (const NodeId rank : ranks) add(rank);
  problem.rank_count = problem.node_count;
  for (std::size_t i = 0; i < topology.nodes().size(); ++i) {
    if (topology.nodes()[i].kind != NodeKind::kCompute) add(NodeId(static_cast<std::int32_t>(i)));
  }
}

// One direction of a link that has capacity left.
struct Direction {
  std::int32_t tail = 0;
  std::int32_t head = 0;
  DirectedLink link;
  std::int64_t rate_bps = 0;
};

std::vector<Direction> ListDirections(const Topology& topology, const ProblemOptions& options,
                                      std::span<const std::int32_t> index) {
  std::vector<Direction> directions;
  for (std::size_t i = 0; i < topology.links().size(); ++i) {
    const fabric::Link& link = topology.links()[i];
    if (link.state != LinkState::kUp) continue;
    const std::int32_t a = index[link.a.Index()];
    const std::int32_t b = index[link.b.Index()];
    if (a == kNotANode || b == kNotANode) continue;
    for (const bool forward : {true, false}) {
      if (!forward && link.directed) continue;
      const DirectedLink direction{fabric::LinkId(static_cast<std::int32_t>(i)), forward};
      const std::int64_t rate =
          options.available.empty() ? link.rate.value : options.available[direction.Index()].value;
      if (rate <= 0) continue;
      directions.push_back(forward ? Direction{a, b, direction, rate}
                                   : Direction{b, a, direction, rate});
    }
  }
  std::stable_sort(directions.begin(), directions.end(), [](const auto& x, const auto& y) {
    return std::pair(x.tail, x.head) < std::pair(y.tail, y.head);
  });
  return directions;
}

// Errors: kResourceExhausted if rates add up to more than 63 bits.
Result<void> AddArcs(std::span<const Direction> directions, Problem& problem) {
  std::int64_t unit = 0;
  Int128 total = 0;
  for (const Direction& direction : directions) {
    unit = std::gcd(unit, direction.rate_bps);
    total += direction.rate_bps;
  }
  if (!ToInt64(total)) {
    return Fail(ErrorCode::kResourceExhausted, "the bandwidths add up to more than 63 bits");
  }
  problem.unit = BitsPerSecond{std::max<std::int64_t>(unit, 1)};
  for (const Direction& direction : directions) {
    const bool parallel = !problem.arcs.empty() && problem.arcs.back().tail == direction.tail &&
                          problem.arcs.back().head == direction.head;
    if (!parallel) {
      problem.arcs.push_back({direction.tail, direction.head, 0});
      problem.links_begin.push_back(static_cast<std::int32_t>(problem.links.size()));
    }
    problem.arcs.back().capacity += direction.rate_bps / problem.unit.value;
    problem.links.push_back(direction.link);
  }
  problem.links_begin.push_back(static_cast<std::int32_t>(problem.links.size()));
  return {};
}

// Removes capacity until every node is balanced.
void Balance(Problem& problem) {
  std::vector<std::int64_t> capacity;
  for (const Arc& arc : problem.arcs) capacity.push_back(arc.capacity);
  TrimToCirculation(problem.node_count, problem.arcs, capacity);
  std::vector<Arc> arcs;
  std::vector<std::int32_t> links_begin;
  std::vector<DirectedLink> links;
  for (std::size_t a = 0; a < problem.arcs.size(); ++a) {
    if (capacity[a] == 0) continue;
    arcs.push_back({problem.arcs[a].tail, problem.arcs[a].head, capacity[a]});
    links_begin.push_back(static_cast<std::int32_t>(links.size()));
    const std::span<const DirectedLink> of_arc = problem.LinksOf(a);
    links.insert(links.end(), of_arc.begin(), of_arc.end());
  }
  links_begin.push_back(static_cast<std::int32_t>(links.size()));
  problem.arcs = std::move(arcs);
  problem.links_begin = std::move(links_begin);
  problem.links = std::move(links);
}

Result<void> CheckBalance(const Problem& problem) {
  std::vector<std::int64_t> in(static_cast<std::size_t>(problem.node_count), 0);
  std::vector<std::int64_t> out(in.size(), 0);
  for (const Arc& arc : problem.arcs) {
    out[static_cast<std::size_t>(arc.tail)] += arc.capacity;
    in[static_cast<std::size_t>(arc.head)] += arc.capacity;
  }
  for (std::size_t v = 0; v < in.size(); ++v) {
    if (in[v] == out[v]) continue;
    const auto gbps = [&](std::int64_t units) {
      return FormatGbps(BitsPerSecond{units * problem.unit.value});
    };
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{} is out of balance: {} Gbit/s enter and {} Gbit/s leave it (give "
                            "both directions of its links, or remove capacity from one side)",
                            problem.names[v], gbps(in[v]), gbps(out[v])));
  }
  return {};
}

}  // namespace

Result<Problem> BuildProblem(const Topology& topology, const ProblemOptions& options) {
  ESPALIER_CHECK(
      options.available.empty() || options.available.size() == 2 * topology.links().size(),
      "available={} links={}", options.available.size(), topology.links().size());
  Result<std::vector<NodeId>> ranks = ListRanks(topology, options);
  if (!ranks) return Propagate(ranks);
  Result<std::vector<std::int64_t>> weights = ReduceWeights(options, ranks->size());
  if (!weights) return Propagate(weights);

  Problem problem;
  problem.weight = std::move(*weights);
  std::vector<std::int32_t> index(topology.nodes().size(), kNotANode);
  AddNodes(topology, *ranks, problem, index);
  Result<void> added = AddArcs(ListDirections(topology, options, index), problem);
  if (!added) return Propagate(added);
  if (!options.balanced) return problem;
  if (!options.available.empty()) Balance(problem);
  Result<void> balanced = CheckBalance(problem);
  if (!balanced) return Propagate(balanced);
  return problem;
}

}  // namespace espalier::forest
