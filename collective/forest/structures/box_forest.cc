#include "collective/forest/structures/box_forest.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "collective/forest/bound/feasibility.h"
#include "collective/forest/general/shallow_forest.h"
#include "collective/forest/problem/circulation.h"
#include "collective/forest/structures/star_forest.h"

namespace espalier::forest {
namespace {

// The forest of a box with a single rank.
Forest BuildAlone(const Problem& problem) {
  Forest forest;
  forest.rank_count = 1;
  if (problem.weight[0] > 0) {
    forest.classes.push_back({0, problem.weight[0]});
    forest.parents.push_back(kNoRank);
  }
  forest.routes.Index(1);
  return forest;
}

void SortByRoot(Forest& forest) {
  std::vector<std::size_t> order(forest.classes.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t c) { return forest.classes[c].root; });
  std::vector<TreeClass> classes;
  std::vector<Rank> parents;
  for (const std::size_t c : order) {
    classes.push_back(forest.classes[c]);
    const std::span<const Rank> tree = std::as_const(forest).Parents(c);
    parents.insert(parents.end(), tree.begin(), tree.end());
  }
  forest.classes = std::move(classes);
  forest.parents = std::move(parents);
}

}  // namespace

BoxForests::Part BoxForests::Extract(std::span<const std::int32_t> nodes, std::size_t rank_count,
                                     std::span<const std::int64_t> roots,
                                     std::span<const std::int64_t> left) const {
  Part part;
  Problem& problem = part.problem;
  problem.node_count = static_cast<std::int32_t>(nodes.size());
  problem.rank_count = static_cast<std::int32_t>(rank_count);
  problem.unit = whole_.unit;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const auto node = static_cast<std::size_t>(nodes[i]);
    if (i < rank_count) problem.weight.push_back(roots[node]);
    problem.topology_node.push_back(whole_.topology_node[node]);
    problem.names.push_back(whole_.names[node]);
    problem.tier.push_back(whole_.tier[node]);
    problem.in_fabric.push_back(whole_.in_fabric[node]);
    problem.multicast.push_back(whole_.multicast[node]);
    problem.reduce.push_back(whole_.reduce[node]);
  }
  // Nodes ascend, so the arcs stay in order too.
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    for (std::size_t j = 0; j < nodes.size(); ++j) {
      const std::int32_t arc = i == j ? -1 : whole_.FindArc(nodes[i], nodes[j]);
      if (arc < 0 || left[static_cast<std::size_t>(arc)] == 0) continue;
      problem.arcs.push_back({static_cast<std::int32_t>(i), static_cast<std::int32_t>(j),
                              left[static_cast<std::size_t>(arc)]});
      part.arc.push_back(arc);
    }
  }
  return part;
}

std::vector<std::int32_t> BoxForests::FabricAround(std::span<const std::int32_t> nodes) const {
  std::vector<std::int32_t> around;
  for (const std::int32_t node : nodes) {
    for (auto arc = std::ranges::lower_bound(whole_.arcs, node, {}, &Arc::tail);
         arc != whole_.arcs.end() && arc->tail == node; ++arc) {
      if (boxes_.box_of[static_cast<std::size_t>(arc->head)] == Boxes::kFabric) {
        around.push_back(arc->head);
      }
    }
  }
  std::ranges::sort(around);
  around.erase(std::unique(around.begin(), around.end()), around.end());
  return around;
}

// Problem: within one box, every rank passes on the trees that it owns or that enter the box at it,
// on the capacity that the trees between boxes left.
//
// Idea: this is a forest problem of its own, with the number of trees to pass on as weights and
// k = 1. Its capacities are first trimmed to a circulation, as the general construction needs
// balanced nodes. A star over one switch is the shallowest forest, so it is tried first. If the box
// alone is too narrow, Solve extends the problem by the neighbouring fabric switches.
//
// Invariant: equal keys (weights, node count, arcs and capacities) describe equal problems, so all
// boxes with the same key share one solution.
//
// Cost: for each distinct box one star test and, if that fails, one flow per rank and one general
// construction.
// Source: this project; the forests themselves are ForestColl's.
Result<BoxForests::Entry> BoxForests::Compute(const Part& part) const {
  Problem problem = part.problem;
  std::vector<std::int64_t> capacity;
  for (const Arc& arc : problem.arcs) capacity.push_back(arc.capacity);
  TrimToCirculation(problem.node_count, problem.arcs, capacity);
  Entry entry;
  TreeCount count;
  problem.arcs.clear();
  for (std::size_t a = 0; a < capacity.size(); ++a) {
    if (capacity[a] == 0) continue;
    const Arc& arc = part.problem.arcs[a];
    problem.arcs.push_back({arc.tail, arc.head, capacity[a]});
    entry.kept.push_back(static_cast<std::int32_t>(a));
    count.capacity.push_back(capacity[a]);
  }
  problem.links_begin.assign(problem.arcs.size() + 1, 0);
  if (problem.rank_count == 1) {
    entry.forest = BuildAlone(problem);
    return entry;
  }
  count.trees_per_weight = 1;
  count.scale = Rational(1, 1);
  count.inverse_rate = Rational(1, 1);
  entry.forest = BuildStar(problem, count);
  if (entry.forest || !SupportsTrees(problem, count.capacity, 1)) return entry;
  auto forest = BuildShallowForest(problem, count, height_steps_, control_);
  if (!forest) return Propagate(forest);
  SortByRoot(*forest);
  entry.forest = std::move(*forest);
  return entry;
}

Result<const BoxForests::Entry*> BoxForests::FindOrCompute(const Part& part) {
  std::vector<std::int64_t> key = part.problem.weight;
  key.push_back(part.problem.node_count);
  for (const Arc& arc : part.problem.arcs) {
    key.insert(key.end(), {arc.tail, arc.head, arc.capacity});
  }
  const auto found = entries_.find(key);
  if (found != entries_.end()) return &found->second;
  auto entry = Compute(part);
  if (!entry) return Propagate(entry);
  return &entries_.emplace(std::move(key), std::move(*entry)).first->second;
}

Result<std::optional<BoxForests::Solved>> BoxForests::Solve(std::int32_t box,
                                                            std::span<const std::int64_t> roots,
                                                            std::span<const std::int64_t> left) {
  const auto index = static_cast<std::size_t>(box);
  std::vector<std::int32_t> nodes(boxes_.ranks[index].begin(), boxes_.ranks[index].end());
  const std::size_t rank_count = nodes.size();
  nodes.insert(nodes.end(), boxes_.inner[index].begin(), boxes_.inner[index].end());
  for (const bool with_fabric : {false, true}) {
    if (with_fabric) {
      const std::vector<std::int32_t> around = FabricAround(nodes);
      nodes.insert(nodes.end(), around.begin(), around.end());
    }
    const Part part = Extract(nodes, rank_count, roots, left);
    const auto entry = FindOrCompute(part);
    if (!entry) return tl::unexpected<Error>(entry.error());
    if (!(*entry)->forest) continue;
    Solved solved;
    solved.forest = &*(*entry)->forest;
    for (const std::int32_t arc : (*entry)->kept) {
      solved.arc.push_back(part.arc[static_cast<std::size_t>(arc)]);
    }
    return solved;
  }
  return std::nullopt;
}

}  // namespace espalier::forest
