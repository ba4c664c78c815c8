#include "collective/forest/edge_splitting/switch_routes.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <utility>
#include <vector>

namespace espalier::forest {
namespace {

using Hops = std::vector<std::int32_t>;

// Two ranks with the leaf 2 and a valley (spine 3, leaf 4, spine 5) between them.
struct TwoRoutes {
  explicit TwoRoutes(std::int64_t by_leaf, std::int64_t by_valley) {
    problem.node_count = 6;
    problem.rank_count = 2;
    problem.in_fabric = {false, false, true, true, true, true};
    problem.tier = {0, 0, 1, 2, 1, 2};
    problem.arcs = {{0, 2, by_leaf},   {0, 3, by_valley}, {2, 1, by_leaf},
                    {3, 4, by_valley}, {4, 5, by_valley}, {5, 1, by_valley}};
    problem.weight = {1, 1};
    for (const Arc& arc : problem.arcs) count.capacity.push_back(arc.capacity);
  }
  // Returns counts and hops of all routes from rank 0 to rank 1, in order.
  std::vector<std::pair<std::int64_t, Hops>> Resolve(const std::vector<Removal>& removals) const {
    const RoutingTable table = ResolveRoutes(problem, count, removals);
    std::vector<std::pair<std::int64_t, Hops>> routes;
    const std::int32_t arc = table.Find(0, 1);
    if (arc < 0) return routes;
    for (const Route& route : table.Routes(static_cast<std::size_t>(arc))) {
      const auto hops = table.Hops(route);
      routes.emplace_back(route.count, Hops(hops.begin(), hops.end()));
    }
    return routes;
  }

  Problem problem;
  TreeCount count;
};

// The first trees get routes that ECMP takes, as long as there are any.
TEST(SwitchRoutes, RoutableOnesComeFirst) {
  const TwoRoutes ways(5, 2);
  const std::vector<Removal> removals = {
      {3, {{0, 4, 2}}}, {4, {{0, 5, 2}}}, {5, {{0, 1, 2}}}, {2, {{0, 1, 5}}}};
  const auto routes = ways.Resolve(removals);
  ASSERT_EQ(routes.size(), 2U);
  EXPECT_EQ(routes[0], (std::pair<std::int64_t, Hops>{5, {0, 2}}));
  EXPECT_EQ(routes[1], (std::pair<std::int64_t, Hops>{2, {1, 3, 4, 5}}));
}

TEST(SwitchRoutes, UnitsThatTravelAlikeAreOneRoute) {
  const TwoRoutes ways(6, 1);
  const std::vector<Removal> removals = {
      {3, {{0, 4, 1}}}, {4, {{0, 5, 1}}}, {5, {{0, 1, 1}}}, {2, {{0, 1, 2}, {0, 1, 3}, {0, 1, 1}}}};
  const auto routes = ways.Resolve(removals);
  ASSERT_EQ(routes.size(), 2U);
  EXPECT_EQ(routes[0].first, 6);
}

}  // namespace
}  // namespace espalier::forest
