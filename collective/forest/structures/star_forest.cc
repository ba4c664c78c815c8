#include "collective/forest/structures/star_forest.h"

#include <array>

namespace espalier::forest {
namespace {

std::int64_t CapacityOf(const Problem& problem, const TreeCount& count, std::int32_t tail,
                        std::int32_t head) {
  const std::int32_t arc = problem.FindArc(tail, head);
  return arc < 0 ? -1 : count.capacity[static_cast<std::size_t>(arc)];
}

// Finds a switch over which every rank can send all its trees to all other ranks at once.
//
// Problem: build trees of height one, in which every root sends directly to all other ranks.
//
// Idea: if one switch joins all ranks, every root can be the parent of all others in its trees. The
// load is then known in advance: for a rank with w of the W trees, (N - 1) w on its link to the
// switch and W - w on the link from it. Comparing these loads with the capacities decides.
//
// Invariant: each ordered pair of ranks has one route over the switch with exactly the trees of its
// sender, so the loads are those above.
// Cost: two arc searches per switch and rank; N^2 parents and routes.
// Source: the direct schedule of a single switch, as in hand-made allgathers.
std::optional<std::int32_t> FindMiddle(const Problem& problem, const TreeCount& count) {
  const Int128 trees = Int128{count.trees_per_weight} * problem.TotalWeight();
  const std::int64_t others = problem.rank_count - 1;
  for (std::int32_t v = problem.rank_count; v < problem.node_count; ++v) {
    bool wide = true;
    for (std::int32_t r = 0; r < problem.rank_count && wide; ++r) {
      const Int128 own =
          Int128{count.trees_per_weight} * problem.weight[static_cast<std::size_t>(r)];
      wide = own * others <= CapacityOf(problem, count, r, v) &&
             trees - own <= CapacityOf(problem, count, v, r);
    }
    if (wide) return v;
  }
  return std::nullopt;
}

}  // namespace

std::optional<Forest> BuildStar(const Problem& problem, const TreeCount& count) {
  const std::optional<std::int32_t> middle = FindMiddle(problem, count);
  if (!middle) return std::nullopt;
  Forest forest;
  forest.method = Method::kHierarchical;
  forest.rank_count = problem.rank_count;
  forest.trees_per_weight = count.trees_per_weight;
  forest.scale = count.scale;
  forest.inverse_rate = count.inverse_rate;
  const auto ranks = static_cast<std::size_t>(problem.rank_count);
  for (std::size_t r = 0; r < ranks; ++r) {
    if (problem.weight[r] == 0) continue;
    forest.classes.push_back({static_cast<Rank>(r), count.trees_per_weight * problem.weight[r]});
    forest.parents.insert(forest.parents.end(), ranks, static_cast<Rank>(r));
    forest.parents[forest.parents.size() - ranks + r] = kNoRank;
  }
  for (std::int32_t to = 0; to < problem.rank_count; ++to) {
    for (std::int32_t from = 0; from < problem.rank_count; ++from) {
      const std::int64_t trees =
          count.trees_per_weight * problem.weight[static_cast<std::size_t>(from)];
      if (from == to || trees == 0) continue;
      forest.routes.AddArc(static_cast<Rank>(from), static_cast<Rank>(to));
      forest.routes.AddRoute(
          trees, std::array{problem.FindArc(from, *middle), problem.FindArc(*middle, to)});
    }
  }
  forest.routes.Index(problem.rank_count);
  return forest;
}

}  // namespace espalier::forest
