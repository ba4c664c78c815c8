#include "collective/forest/model/routed_trees.h"

#include <algorithm>

#include "common/base/check.h"

namespace espalier::forest {
namespace {

// The routes of one edge, in order.
struct EdgeRoutes {
  std::vector<RouteCursor::Piece> pieces;
  std::size_t at = 0;
  std::int64_t used = 0;  // units used of the piece at `at`
};

// Ranks from the root down, level by level.
std::vector<Rank> OrderByDepth(std::span<const Rank> parents, Rank root, std::int32_t& height) {
  std::vector<std::int32_t> first(parents.size(), -1);
  std::vector<std::int32_t> next(parents.size(), -1);
  for (std::size_t r = parents.size(); r-- > 0;) {
    if (parents[r] == kNoRank) continue;
    next[r] = first[parents[r]];
    first[parents[r]] = static_cast<std::int32_t>(r);
  }
  std::vector<Rank> order = {root};
  std::vector<std::int32_t> depth(parents.size(), 0);
  for (std::size_t i = 0; i < order.size(); ++i) {
    for (std::int32_t child = first[order[i]]; child >= 0;
         child = next[static_cast<std::size_t>(child)]) {
      depth[static_cast<std::size_t>(child)] = depth[order[i]] + 1;
      order.push_back(static_cast<Rank>(child));
    }
  }
  height = depth[order.back()];
  return order;
}

}  // namespace

void VisitRoutedTrees(const Forest& forest, const std::function<bool(const RoutedTree&)>& visit) {
  RouteCursor cursor(forest.routes);
  std::vector<EdgeRoutes> routes(static_cast<std::size_t>(forest.rank_count));  // by child
  std::vector<TreeEdge> edges;
  for (std::size_t c = 0; c < forest.classes.size(); ++c) {
    const TreeClass& tree = forest.classes[c];
    const std::span<const Rank> parents = forest.Parents(c);
    RoutedTree routed{.tree_class = c, .root = tree.root};
    const std::vector<Rank> order = OrderByDepth(parents, tree.root, routed.height);
    for (const Rank child : order) {
      if (child == tree.root) continue;
      const std::int32_t arc = forest.routes.Find(parents[child], child);
      ESPALIER_CHECK(arc >= 0, "parent={} child={}", parents[child], child);
      const auto pieces = cursor.Take(static_cast<std::size_t>(arc), tree.count);
      ESPALIER_CHECK(!pieces.empty(), "parent={} child={}", parents[child], child);
      routes[child] = {{pieces.begin(), pieces.end()}, 0, 0};
    }
    for (std::int64_t done = 0; done < tree.count; done += routed.count) {
      routed.count = tree.count - done;
      edges.clear();
      for (const Rank child : order) {
        if (child == tree.root) continue;
        const EdgeRoutes& own = routes[child];
        routed.count = std::min(routed.count, own.pieces[own.at].count - own.used);
        edges.push_back({parents[child], child, own.pieces[own.at].route});
      }
      for (const TreeEdge& edge : edges) {
        EdgeRoutes& own = routes[edge.child];
        own.used += routed.count;
        if (own.used == own.pieces[own.at].count) {
          ++own.at;
          own.used = 0;
        }
      }
      routed.edges = edges;
      if (!visit(routed)) return;
    }
  }
}

}  // namespace espalier::forest
