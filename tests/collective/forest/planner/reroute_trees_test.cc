#include "collective/forest/planner/reroute_trees.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "collective/forest/model/routable.h"
#include "collective/forest/planner/planner.h"
#include "tests/collective/forest/reference_cases.h"

namespace espalier::forest {
namespace {

struct Damaged {
  Problem problem;
  TreeCount count;
  PreviousTrees trees;  // the paths of the whole network
};

// Returns none if a rank is cut off.
std::optional<Damaged> MakeDamaged(const std::string& whole, const std::string& damage) {
  const fabric::Topology before = BuildTopology(MakeReferenceTopology(whole));
  const fabric::Topology after = BuildTopology(MakeReferenceTopology(whole + damage));
  const auto made = MakeTreeSchedule(before, {.height_steps = 100'000});
  Damaged damaged{MakeReferenceProblem(whole + damage), {}, {}};
  const auto optimality = ComputeOptimality(damaged.problem);
  if (!optimality) return std::nullopt;
  damaged.count = *CountTrees(damaged.problem, *optimality);
  damaged.trees = *FindPreviousTrees(after, damaged.problem, made->schedule, before, false);
  return damaged;
}

// Checks that every path of a tree leads from the parent to the child, over switches only, and that
// ECMP can take every new path.
void ExpectPaths(const Damaged& damaged, const PreviousTrees::Tree& tree, bool all) {
  for (std::size_t child = 0; child < tree.parents.size(); ++child) {
    if (tree.parents[child] == kNoRank) continue;
    const std::int32_t route = tree.routes[child];
    EXPECT_TRUE(!all || route >= 0);
    if (route < 0) continue;
    const auto& hops = damaged.trees.routes[static_cast<std::size_t>(route)];
    std::int32_t at = tree.parents[child];
    for (const std::int32_t hop : hops) {
      const Arc& arc = damaged.problem.arcs[static_cast<std::size_t>(hop)];
      EXPECT_EQ(arc.tail, at);
      EXPECT_TRUE(at == tree.parents[child] || !damaged.problem.IsRank(at));
      at = arc.head;
    }
    EXPECT_EQ(at, static_cast<std::int32_t>(child));
    if (static_cast<std::size_t>(route) >= damaged.trees.whole_routes) {
      EXPECT_TRUE(IsRoutable(damaged.problem, hops));
    }
  }
}

TEST(RerouteTrees, FindsPathsWithinTheResidualCapacity) {
  int rerouted = 0;
  for (const char* whole : {"clos4x4s4", "clos8x2s4", "a100_4", "clos6x3s3"}) {
    for (const char* damage :
         {"+deadspine", "+deadlink", "+deadnic", "+random1", "+random2", "+random3", "+random4"}) {
      SCOPED_TRACE(testing::Message() << whole << damage);
      std::optional<Damaged> made = MakeDamaged(whole, damage);
      if (!made) continue;
      Damaged& damaged = *made;
      PreviousTrees& trees = damaged.trees;
      const std::vector<PreviousTrees::Tree> broken = trees.broken;
      RerouteTrees(damaged.problem, damaged.count, trees);
      const std::size_t found = trees.trees.size();
      // Rerouted trees never take more of an arc than whole trees leave.
      const std::vector<std::int64_t>& left = damaged.count.capacity;
      std::vector<std::int64_t> taken(left.size(), 0);
      for (std::size_t t = 0; t < found; ++t) {
        const PreviousTrees::Tree& tree = trees.trees[t];
        const bool is_whole = t < trees.whole_trees;
        EXPECT_EQ(tree.rerouted, !is_whole);
        ExpectPaths(damaged, tree, true);
        if (is_whole) continue;
        ++rerouted;
        const std::int64_t units = tree.Units(damaged.problem, damaged.count.trees_per_weight);
        EXPECT_GT(units, 0);
        for (const std::int32_t route : tree.routes) {
          if (route < 0) continue;
          for (const std::int32_t arc : trees.routes[static_cast<std::size_t>(route)]) {
            taken[static_cast<std::size_t>(arc)] += units;
          }
        }
      }
      for (std::size_t a = 0; a < left.size(); ++a) EXPECT_LE(taken[a], left[a]);
      // A second call gives the same result: no state is left from the first.
      const std::size_t routes = trees.routes.size();
      RerouteTrees(damaged.problem, damaged.count, trees);
      EXPECT_EQ(trees.trees.size(), found);
      EXPECT_EQ(trees.routes.size(), routes);
      EXPECT_EQ(trees.broken.size(), broken.size());
    }
  }
  EXPECT_GT(rerouted, 0);
}

}  // namespace
}  // namespace espalier::forest
