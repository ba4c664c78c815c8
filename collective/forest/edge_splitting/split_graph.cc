#include "collective/forest/edge_splitting/split_graph.h"

#include "common/base/check.h"

namespace espalier::forest {

SplitGraph::SplitGraph(const Problem& problem, const TreeCount& count)
    : flows_(problem.node_count), return_(static_cast<std::size_t>(problem.node_count), 0) {
  for (std::size_t a = 0; a < problem.arcs.size(); ++a) {
    const Arc& arc = problem.arcs[a];
    flows_.Add(arc.tail, arc.head, count.capacity[a]);
    if (problem.IsRank(arc.tail)) return_[static_cast<std::size_t>(arc.tail)] -= count.capacity[a];
    if (problem.IsRank(arc.head)) return_[static_cast<std::size_t>(arc.head)] += count.capacity[a];
  }
  for (std::int32_t rank = 0; rank < problem.rank_count; ++rank) {
    const auto index = static_cast<std::size_t>(rank);
    const std::int64_t supply = problem.weight[index] * count.trees_per_weight;
    flows_.AddSupply(rank, supply);
    return_[index] += supply;
    ESPALIER_CHECK(return_[index] >= 0, "rank={} return={}", rank, return_[index]);
  }
}

std::int64_t SplitGraph::In(std::int32_t from, std::int32_t node) const {
  return from == kSource ? flows_.Supply(node) : flows_.Capacity(from, node);
}

std::int64_t SplitGraph::Out(std::int32_t node, std::int32_t to) const {
  return to == kSource ? Return(node) : flows_.Capacity(node, to);
}

void SplitGraph::Apply(std::int32_t node, std::int32_t from, std::int32_t to, std::int64_t amount) {
  if (from == kSource) {
    flows_.AddSupply(node, -amount);
  } else {
    flows_.Add(from, node, -amount);
  }
  if (to == kSource) {
    return_[static_cast<std::size_t>(node)] -= amount;
  } else {
    flows_.Add(node, to, -amount);
  }
  if (from == to) return;
  if (from == kSource) {
    flows_.AddSupply(to, amount);
  } else if (to == kSource) {
    return_[static_cast<std::size_t>(from)] += amount;
  } else {
    flows_.Add(from, to, amount);
  }
}

void SplitGraph::Apply(const Removal& removal) {
  for (const Split& split : removal.splits) {
    Apply(removal.node, split.from, split.to, split.amount);
  }
}

void SplitGraph::Undo(const Removal& removal) {
  for (const Split& split : removal.splits) {
    Apply(removal.node, split.from, split.to, -split.amount);
  }
}

}  // namespace espalier::forest
