#include "collective/forest/model/routable.h"

#include <algorithm>
#include <vector>

namespace espalier::forest {

bool IsRoutable(const Problem& problem, std::span<const std::int32_t> hops) {
  enum class Leg { kBefore, kUp, kAcross, kDown, kAfter };
  Leg leg = Leg::kBefore;
  std::int32_t last_tier = 0;
  for (std::size_t i = 0; i + 1 < hops.size(); ++i) {
    const auto node =
        static_cast<std::size_t>(problem.arcs[static_cast<std::size_t>(hops[i])].head);
    if (!problem.in_fabric[node]) {
      if (leg != Leg::kBefore) leg = Leg::kAfter;
      continue;
    }
    if (leg == Leg::kAfter) return false;
    const std::int32_t tier = problem.tier[node];
    Leg next = Leg::kUp;
    if (leg != Leg::kBefore && tier == last_tier) next = Leg::kAcross;
    if (leg != Leg::kBefore && tier < last_tier) next = Leg::kDown;
    if (next < leg) return false;
    leg = next;
    last_tier = tier;
    for (std::size_t j = 0; j < i; ++j) {
      if (static_cast<std::size_t>(problem.arcs[static_cast<std::size_t>(hops[j])].head) == node) {
        return false;
      }
    }
  }
  return true;
}

std::int64_t CountUnroutableEdges(const Problem& problem, const Forest& forest) {
  std::vector<bool> bad(forest.routes.ArcCount(), false);
  for (std::size_t arc = 0; arc < bad.size(); ++arc) {
    const std::span<const Route> routes = forest.routes.Routes(arc);
    bad[arc] = std::any_of(routes.begin(), routes.end(), [&](const Route& route) {
      return !IsRoutable(problem, forest.routes.Hops(route));
    });
  }
  if (std::none_of(bad.begin(), bad.end(), [](bool b) { return b; })) return 0;

  std::int64_t edges = 0;
  RouteCursor cursor(forest.routes);
  for (std::size_t c = 0; c < forest.classes.size(); ++c) {
    const std::span<const Rank> parents = forest.Parents(c);
    for (std::size_t rank = 0; rank < parents.size(); ++rank) {
      if (parents[rank] == kNoRank) continue;
      const auto arc =
          static_cast<std::size_t>(forest.routes.Find(parents[rank], static_cast<Rank>(rank)));
      if (!bad[arc]) continue;
      const auto pieces = cursor.Take(arc, forest.classes[c].count);
      edges += std::any_of(pieces.begin(), pieces.end(), [&](const RouteCursor::Piece& piece) {
        return !IsRoutable(problem, forest.routes.Hops(*piece.route));
      });
    }
  }
  return edges;
}

}  // namespace espalier::forest
