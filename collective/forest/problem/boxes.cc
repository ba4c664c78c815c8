#include "collective/forest/problem/boxes.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

namespace espalier::forest {
namespace {

// Returns the parts that remain without the fabric; none if they are not a division into boxes.
std::optional<Boxes> Divide(const Problem& problem, const std::vector<bool>& is_fabric) {
  const auto nodes = static_cast<std::size_t>(problem.node_count);
  std::vector<std::int32_t> part(nodes);
  std::iota(part.begin(), part.end(), 0);
  const auto find = [&](std::int32_t node) {
    while (part[static_cast<std::size_t>(node)] != node) {
      std::int32_t& up = part[static_cast<std::size_t>(node)];
      up = part[static_cast<std::size_t>(up)];
      node = up;
    }
    return node;
  };
  for (const Arc& arc : problem.arcs) {
    if (is_fabric[static_cast<std::size_t>(arc.tail)] ||
        is_fabric[static_cast<std::size_t>(arc.head)]) {
      continue;
    }
    const std::int32_t tail = find(arc.tail);
    const std::int32_t head = find(arc.head);
    part[static_cast<std::size_t>(std::max(tail, head))] = std::min(tail, head);
  }
  Boxes boxes;
  boxes.box_of.assign(nodes, Boxes::kFabric);
  bool has_several = false;
  for (std::int32_t v = 0; v < problem.node_count; ++v) {
    if (is_fabric[static_cast<std::size_t>(v)]) continue;
    // Ranks come first and the smallest node names its part, so a part without ranks is new here.
    const std::int32_t first = find(v);
    std::int32_t& box = boxes.box_of[static_cast<std::size_t>(v)];
    if (problem.IsRank(v)) {
      if (first == v) {
        box = static_cast<std::int32_t>(boxes.ranks.size());
        boxes.ranks.emplace_back();
        boxes.inner.emplace_back();
      } else {
        box = boxes.box_of[static_cast<std::size_t>(first)];
        has_several = true;
      }
      boxes.ranks[static_cast<std::size_t>(box)].push_back(static_cast<Rank>(v));
    } else if (first < v && boxes.box_of[static_cast<std::size_t>(first)] >= 0) {
      box = boxes.box_of[static_cast<std::size_t>(first)];
      boxes.inner[static_cast<std::size_t>(box)].push_back(v);
    }
  }
  if (boxes.ranks.size() < 2 || !has_several) return std::nullopt;
  return boxes;
}

std::vector<std::int32_t> CountNeighbours(const Problem& problem) {
  std::vector<std::int32_t> neighbours(static_cast<std::size_t>(problem.node_count), 0);
  for (const Arc& arc : problem.arcs) ++neighbours[static_cast<std::size_t>(arc.tail)];
  return neighbours;
}

}  // namespace

std::vector<Boxes> FindBoxes(const Problem& problem) {
  const auto nodes = static_cast<std::size_t>(problem.node_count);
  const auto ranks = static_cast<std::size_t>(problem.rank_count);
  std::vector<Boxes> found;
  std::set<std::vector<bool>> tried;
  const auto attempt = [&](auto in_fabric) {
    std::vector<bool> is_fabric(nodes, false);
    for (std::size_t v = ranks; v < nodes; ++v) is_fabric[v] = in_fabric(v);
    if (!tried.insert(is_fabric).second) return;
    if (auto boxes = Divide(problem, is_fabric)) found.push_back(std::move(*boxes));
  };
  attempt([&](std::size_t v) { return problem.in_fabric[v]; });

  std::set<std::int32_t, std::greater<>> tiers;
  for (std::size_t v = ranks; v < nodes; ++v) tiers.insert(problem.tier[v]);
  for (const std::int32_t tier : tiers) {
    attempt([&](std::size_t v) { return problem.tier[v] >= tier; });
  }
  const std::vector<std::int32_t> neighbours = CountNeighbours(problem);
  const std::int32_t most =
      nodes == ranks ? 0
                     : *std::max_element(neighbours.begin() + static_cast<std::ptrdiff_t>(ranks),
                                         neighbours.end());
  attempt([&](std::size_t v) { return neighbours[v] == most; });
  return found;
}

}  // namespace espalier::forest
