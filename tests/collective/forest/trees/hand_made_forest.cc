#include "tests/collective/forest/trees/hand_made_forest.h"

#include <algorithm>
#include <map>
#include <utility>

#include "common/base/check.h"

namespace espalier::forest {

HandMadeForest MakeHandMadeForest(std::int32_t ranks, const std::vector<std::int32_t>& boxes,
                                  const std::vector<Arc>& arcs,
                                  const std::vector<HandMadeTree>& trees) {
  HandMadeForest made;
  Problem& problem = made.problem;
  problem.rank_count = ranks;
  problem.node_count = static_cast<std::int32_t>(boxes.size());
  problem.weight.assign(static_cast<std::size_t>(ranks), 1);
  problem.tier.assign(boxes.size(), 0);
  for (const std::int32_t box : boxes) problem.in_fabric.push_back(box < 0);
  problem.arcs = arcs;
  std::ranges::sort(problem.arcs, {}, [](const Arc& arc) { return std::pair(arc.tail, arc.head); });
  for (const Arc& arc : problem.arcs) made.count.capacity.push_back(arc.capacity);
  made.count.trees_per_weight = 1;

  made.forest.rank_count = ranks;
  std::map<std::pair<std::int32_t, std::int32_t>,
           std::vector<std::pair<std::int64_t, std::vector<std::int32_t>>>>
      routes;
  for (const HandMadeTree& tree : trees) {
    made.forest.classes.push_back({tree.root, tree.count});
    std::vector<Rank> parents(static_cast<std::size_t>(ranks), kNoRank);
    for (const std::vector<std::int32_t>& nodes : tree.edges) {
      std::vector<std::int32_t> hops;
      for (std::size_t i = 1; i < nodes.size(); ++i) {
        hops.push_back(problem.FindArc(nodes[i - 1], nodes[i]));
        ESPALIER_CHECK(hops.back() >= 0, "no arc {} to {}", nodes[i - 1], nodes[i]);
      }
      parents[static_cast<std::size_t>(nodes.back())] = static_cast<Rank>(nodes.front());
      routes[{nodes.back(), nodes.front()}].emplace_back(tree.count, std::move(hops));
    }
    made.forest.parents.insert(made.forest.parents.end(), parents.begin(), parents.end());
  }
  for (const auto& [edge, of_edge] : routes) {
    made.forest.routes.AddArc(static_cast<Rank>(edge.second), static_cast<Rank>(edge.first));
    for (const auto& [count, hops] : of_edge) made.forest.routes.AddRoute(count, hops);
  }
  made.forest.routes.Index(ranks);
  return made;
}

}  // namespace espalier::forest
