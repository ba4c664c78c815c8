// The rates at which flows settle.
#include "controller/placement/rate_planner.h"

#include <gtest/gtest.h>

#include "tests/controller/cluster.h"

namespace espalier::controller {
namespace {

using namespace std::chrono_literals;

TEST(RatePlannerTest, AreTheRatesAtWhichFlowsSettleAndFollowChanges) {
  Cluster cluster({.spines = 2, .leaves = 2, .hosts_per_leaf = 3}, {.limit_rates = true});
  cluster.ConnectAll();
  for (int i = 0; i < 3; ++i) cluster.Open(i, {{.id = 1, .to = 3 + i, .max_paths = 2}});
  cluster.Advance(1s);
  const auto gbps = [&](int host) {
    return static_cast<double>(cluster.host(host).sets.at(1).max_rate_bps) * 1e-9;
  };
  // Two links of 100 Gbit/s for three flows; then each its NIC's rate.
  for (int i = 0; i < 3; ++i) EXPECT_NEAR(gbps(i), 200.0 / 3, 0.001);
  const std::size_t pushes = cluster.host(1).pushes.size();
  cluster.Advance(1s);
  EXPECT_EQ(cluster.host(1).pushes.size(), pushes);
  cluster.End(0, 1);
  cluster.Advance(1s);
  for (int i = 1; i < 3; ++i) EXPECT_NEAR(gbps(i), 100, 0.001);
  EXPECT_EQ(cluster.host(1).pushes.size(), pushes + 1);
}

TEST(RatePlannerTest, AreNotLimitedUnlessTheOperatorEnablesIt) {
  Cluster cluster({.spines = 2, .leaves = 2, .hosts_per_leaf = 3});
  cluster.ConnectAll();
  cluster.Open(0, {{.id = 1, .to = 3}});
  cluster.Advance(1s);
  EXPECT_EQ(cluster.host(0).sets.at(1).max_rate_bps, 0U);
}

}  // namespace
}  // namespace espalier::controller
