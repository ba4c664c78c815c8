#include "tests/collective/forest/check_forest.h"

#include <fmt/format.h>

#include <vector>

namespace espalier::forest {

namespace {

bool Spans(std::span<const Rank> parents, Rank root) {
  if (parents[root] != kNoRank) return false;
  std::vector<int> state(parents.size(), 0);  // 1: on the current path, 2: reaches the root
  state[root] = 2;
  for (std::size_t start = 0; start < parents.size(); ++start) {
    std::vector<std::size_t> path;
    std::size_t at = start;
    while (state[at] == 0) {
      state[at] = 1;
      path.push_back(at);
      if (parents[at] >= parents.size()) return false;
      at = parents[at];
    }
    if (state[at] == 1) return false;
    for (const std::size_t node : path) state[node] = 2;
  }
  return true;
}

bool Leads(const Problem& problem, std::span<const std::int32_t> hops, Rank from, Rank to) {
  std::int32_t at = from;
  for (const std::int32_t hop : hops) {
    const Arc& arc = problem.arcs[static_cast<std::size_t>(hop)];
    if (arc.tail != at) return false;
    at = arc.head;
    if (problem.IsRank(at) && at != to) return false;
  }
  return at == to && !hops.empty();
}

}  // namespace

std::string FindFault(const Problem& problem, const TreeCount& count, const Forest& forest) {
  std::vector<std::int64_t> roots(static_cast<std::size_t>(problem.rank_count), 0);
  std::vector<std::int64_t> load(problem.arcs.size(), 0);
  RouteCursor cursor(forest.routes);
  for (std::size_t c = 0; c < forest.classes.size(); ++c) {
    const TreeClass& tree_class = forest.classes[c];
    const std::span<const Rank> parents = forest.Parents(c);
    if (tree_class.count <= 0) return fmt::format("class {} is empty", c);
    if (!Spans(parents, tree_class.root)) return fmt::format("class {} is no spanning tree", c);
    roots[tree_class.root] += tree_class.count;
    for (std::size_t rank = 0; rank < parents.size(); ++rank) {
      if (parents[rank] == kNoRank) continue;
      const std::int32_t arc = forest.routes.Find(parents[rank], static_cast<Rank>(rank));
      if (arc < 0) return fmt::format("class {}: no arc {} to {}", c, parents[rank], rank);
      std::int64_t routed = 0;
      for (const RouteCursor::Piece& piece :
           cursor.Take(static_cast<std::size_t>(arc), tree_class.count)) {
        const auto hops = forest.routes.Hops(*piece.route);
        if (!Leads(problem, hops, parents[rank], static_cast<Rank>(rank))) {
          return fmt::format("a route from {} to {} does not lead there", parents[rank], rank);
        }
        routed += piece.count;
        for (const std::int32_t hop : hops) load[static_cast<std::size_t>(hop)] += piece.count;
      }
      if (routed != tree_class.count) {
        return fmt::format("{} trees use {} to {} past its capacity", tree_class.count,
                           parents[rank], rank);
      }
    }
  }
  for (std::size_t rank = 0; rank < roots.size(); ++rank) {
    const std::int64_t wanted = count.trees_per_weight * problem.weight[rank];
    if (roots[rank] != wanted) {
      return fmt::format("{} trees at rank {}, not {}", roots[rank], rank, wanted);
    }
  }
  for (std::size_t a = 0; a < load.size(); ++a) {
    const Rational limit = *Rational::Product(count.scale, Rational(problem.arcs[a].capacity, 1));
    if (Rational(load[a], 1) > limit) {
      return fmt::format("{} trees on the arc {} to {}, which holds {}", load[a],
                         problem.arcs[a].tail, problem.arcs[a].head, limit.ToString());
    }
  }
  return "";
}

}  // namespace espalier::forest
