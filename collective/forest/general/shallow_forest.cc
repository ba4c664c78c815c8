#include "collective/forest/general/shallow_forest.h"

#include <algorithm>
#include <optional>
#include <queue>
#include <utility>
#include <vector>

#include "collective/forest/general/general_forest.h"
#include "collective/forest/trees/reduce_tree_heights.h"
#include "collective/forest/trees/regrow_trees.h"

namespace espalier::forest {
namespace {

constexpr std::int32_t kSmall = 64;  // ranks
constexpr std::int32_t kMedium =
    256;  // ranks up to which ReduceTreeHeights is effective within its steps
constexpr std::int32_t kMaxTries = 16;  // forests of small problems
constexpr std::int32_t kSources = 64;   // ranks that distances are measured from

using Neighbours = std::vector<std::vector<std::int32_t>>;

// Returns the number of tree edges between the rank and the rank farthest from it; switches count
// nothing.
std::int32_t Eccentricity(const Problem& problem, const Neighbours& neighbours, std::int32_t from) {
  std::vector<bool> seen(neighbours.size(), false);
  std::vector<std::int32_t> level = {from};
  seen[static_cast<std::size_t>(from)] = true;
  std::int32_t distance = 0;
  for (;; ++distance) {
    std::vector<std::int32_t> next;
    for (std::size_t i = 0; i < level.size(); ++i) {
      for (const std::int32_t node : neighbours[static_cast<std::size_t>(level[i])]) {
        if (seen[static_cast<std::size_t>(node)]) continue;
        seen[static_cast<std::size_t>(node)] = true;
        (problem.IsRank(node) ? next : level).push_back(node);
      }
    }
    if (next.empty()) return distance;
    level = std::move(next);
  }
}

// Exact for up to kSources ranks. In larger problems only that many sources are measured, which is
// approximately right.
std::int32_t GreatestDistance(const Problem& problem, const TreeCount& count) {
  Neighbours neighbours(static_cast<std::size_t>(problem.node_count));
  for (std::size_t a = 0; a < problem.arcs.size(); ++a) {
    if (count.capacity[a] == 0) continue;
    neighbours[static_cast<std::size_t>(problem.arcs[a].tail)].push_back(problem.arcs[a].head);
  }
  std::int32_t greatest = 0;
  const std::int32_t step = (problem.rank_count + kSources - 1) / kSources;
  for (std::int32_t rank = 0; rank < problem.rank_count; rank += step) {
    greatest = std::max(greatest, Eccentricity(problem, neighbours, rank));
  }
  return greatest;
}

Result<Forest> BuildLargeForest(const Problem& problem, const TreeCount& count,
                                std::int64_t height_steps, const Control& control) {
  control.Report("height", 0);
  if (height_steps > 0) {
    if (auto grown = GrowTrees(problem, count, control)) return std::move(*grown);
  }
  auto forest = BuildGeneralForest(problem, count, {}, control);
  if (!forest || height_steps == 0) return forest;
  control.Report("height", 0);
  RegrowTrees(problem, count, *forest, control);
  return forest;
}

}  // namespace

Result<Forest> BuildShallowForest(const Problem& problem, const TreeCount& count,
                                  std::int64_t height_steps, const Control& control) {
  const std::int32_t distance = GreatestDistance(problem, count);
  const std::int32_t shallow_enough = distance * 3 / 2;
  if (problem.rank_count > kSmall) {
    auto forest = BuildLargeForest(problem, count, height_steps, control);
    if (!forest || height_steps == 0 || problem.rank_count > kMedium) return forest;
    if (ComputeHeights(*forest).max > shallow_enough) {
      ReduceTreeHeights(problem, count, {.steps = height_steps}, *forest, control);
    }
    return forest;
  }
  const std::int32_t tries = std::min(problem.rank_count, kMaxTries);
  std::optional<Forest> shallowest;
  Heights heights;
  for (std::int32_t i = 0; i < tries && (i == 0 || height_steps > 0); ++i) {
    auto forest = BuildGeneralForest(problem, count, {.first_rank = i}, control);
    if (!forest) return forest;
    control.Report("height", 0);
    height_steps -= ReduceTreeHeights(problem, count, {.steps = height_steps}, *forest, control);
    const Heights own = ComputeHeights(*forest);
    if (!shallowest || std::pair(own.max, own.mean) < std::pair(heights.max, heights.mean)) {
      shallowest = std::move(*forest);
      heights = own;
    }
    if (heights.max <= shallow_enough) break;
  }
  return std::move(*shallowest);
}

}  // namespace espalier::forest
