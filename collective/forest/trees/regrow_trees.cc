#include "collective/forest/trees/regrow_trees.h"

#include <optional>
#include <utility>
#include <vector>

#include "collective/forest/problem/boxes.h"
#include "collective/forest/trees/box_entries.h"
#include "collective/forest/trees/half_routes.h"
#include "collective/forest/trees/last_edges.h"
#include "collective/forest/trees/level_growth.h"
#include "collective/forest/trees/tree_table.h"

namespace espalier::forest {
namespace {

// Problem: give every edge of every tree a sender within the capacities, so that the trees are
// shallow.
//
// Idea: three steps. AlignEntries lets trees enter boxes where shallow trees can start. LevelGrowth
// grows all trees level by level, greedily. LastEdges finds senders for the few edges that remain,
// by moving edges of other trees.
//
// Invariant: no link ever carries more than its capacity; only edges without a sender are missing.
// Cost: O(trees * ranks * (levels + half routes)), and for the last edges at most as many
// candidates as there are edges plus a million.
// Source: this project. The incoming halves come from the packed forest (PackTrees).
//
// Returns false if growth gets stuck or is cancelled.
bool Grow(const Problem& problem, const HalfRoutes& half_routes, TreeTable& trees,
          const Control& control) {
  const std::vector<Boxes> boxes = FindBoxes(problem);
  if (!boxes.empty()) AlignEntries(problem, boxes.front(), half_routes, trees);
  std::optional<LevelGrowth> growth(std::in_place, problem, half_routes, trees);
  if (!growth->Grow(control)) return false;
  std::vector<TreeTable::Edge> pending = growth->Pending();
  growth.reset();  // frees its memory
  return LastEdges(half_routes, trees).PlaceAll(std::move(pending), control);
}

}  // namespace

std::optional<Forest> GrowTrees(const Problem& problem, const TreeCount& count,
                                const Control& control) {
  if (problem.node_count != problem.rank_count) return std::nullopt;
  const auto half_routes = HalfRoutes::Find(problem, count, {});
  if (!half_routes) return std::nullopt;
  TreeTable trees(problem, count, *half_routes);
  if (!Grow(problem, *half_routes, trees, control)) return std::nullopt;
  return std::move(trees).Collect(count);
}

bool RegrowTrees(const Problem& problem, const TreeCount& count, Forest& forest,
                 const Control& control) {
  const auto half_routes = HalfRoutes::Find(problem, count, forest);
  if (!half_routes) return false;
  TreeTable trees(problem, count, forest, *half_routes);
  if (!Grow(problem, *half_routes, trees, control)) return false;
  Forest grown = std::move(trees).Collect(count);
  grown.fallbacks = forest.fallbacks;
  const Heights heights = ComputeHeights(grown);
  const Heights before = ComputeHeights(forest);
  if (std::pair(heights.max, heights.mean) >= std::pair(before.max, before.mean)) return false;
  forest = std::move(grown);
  return true;
}

}  // namespace espalier::forest
