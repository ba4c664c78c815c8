// The rates at which flows settle.
#include "controller/placement/rate_planner.h"

#include <gtest/gtest.h>

#include "tests/controller/cluster.h"

namespace espalier::controller {
namespace {

using namespace std::chrono_literals;

TEST(RatePlannerTest, AreTheRatesAtWhichFlowsSettleAndFollowChanges) {
  Cluster cluster({.spines = 2, .leaves = 2, .hosts_per_leaf = 3},
                  {.limit_rates = RateLimits::kOn});
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

// Three links for three flows of three parts each. One part moves to the link of another one.
TEST(RatePlannerTest, CountWhatOtherPathsTakeIfFlowsSendByWeights) {
  for (const bool keeps : {false, true}) {
    Cluster cluster({.spines = 3, .leaves = 2, .hosts_per_leaf = 3},
                    {.limit_rates = RateLimits::kOn, .balance_splits = false});
    cluster.ConnectAll();
    for (int i = 0; i < 3; ++i) {
      cluster.Open(i, {{.id = 1, .to = 3 + i, .max_paths = 3, .keeps_weights = keeps}});
    }
    cluster.Advance(1s);
    const auto gbps = [&](int host) {
      return static_cast<double>(cluster.host(host).sets.at(1).max_rate_bps) * 1e-9;
    };
    for (int i = 0; i < 3; ++i) EXPECT_NEAR(gbps(i), 100, 0.001);
    const wire::FlowPath left = cluster.host(0).sets.at(1).paths[0];
    const int met = cluster.SpineOf(0, 3, cluster.host(0).sets.at(1).paths[1].source_port);
    std::uint16_t port = 60'000;
    while (cluster.SpineOf(0, 3, port) != met) ++port;
    cluster.Deliver(cluster.host(0).peer, cluster.host(0).instance,
                    wire::PathHealth{.flows = {{.flow = wire::LocalFlowId(1),
                                                .path_id = left.path_id,
                                                .source_port = port,
                                                .verdict = wire::PathVerdict::kLocallyRerouted,
                                                .left_port = left.source_port}}});
    cluster.Settle();
    // Four parts share a link, and each gets a quarter of it. With equal parts no flow is faster
    // than that part. By weights, flow 0 gets a third of the last link, too; the others fill their
    // NICs, as the link that was left has room.
    EXPECT_NEAR(gbps(0), keeps ? 2 * 25 + 100.0 / 3 : 75, 0.001) << keeps;
    EXPECT_NEAR(gbps(1), keeps ? 100 : 75, 0.001) << keeps;
  }
}

TEST(RatePlannerTest, AreLimitedByDefaultWhereSomethingEnforcesIt) {
  Cluster cluster({.spines = 1, .leaves = 2, .hosts_per_leaf = 3});
  cluster.ConnectAll();
  cluster.Open(0, {{.id = 1, .to = 3}});
  cluster.Advance(1s);
  EXPECT_EQ(cluster.host(0).sets.at(1).max_rate_bps, 0U);
  cluster.Open(1, {{.id = 1, .to = 4, .keeps_rate = true}});
  cluster.Advance(1s);
  // Half of the only link: flows that keep no rate count, too.
  EXPECT_NEAR(static_cast<double>(cluster.host(1).sets.at(1).max_rate_bps), 50e9, 1e6);
  EXPECT_EQ(cluster.host(0).sets.at(1).max_rate_bps, 0U);
  ASSERT_TRUE(cluster.ChangePolicy("limit_rates", "true"));
  cluster.Advance(1s);
  EXPECT_NEAR(static_cast<double>(cluster.host(0).sets.at(1).max_rate_bps), 50e9, 1e6);
  ASSERT_TRUE(cluster.ChangePolicy("limit_rates", "automatic"));
  cluster.Advance(1s);
  EXPECT_EQ(cluster.host(0).sets.at(1).max_rate_bps, 0U);
  EXPECT_NE(cluster.host(1).sets.at(1).max_rate_bps, 0U);
  ASSERT_TRUE(cluster.ChangePolicy("limit_rates", "false"));
  cluster.Advance(1s);
  EXPECT_EQ(cluster.host(1).sets.at(1).max_rate_bps, 0U);
}

// Three flows of one link, of which one after the other has nothing more to send.
TEST(RatePlannerTest, RiseAtOnceWhenOthersBecomeIdle) {
  Cluster cluster({.spines = 1, .leaves = 2, .hosts_per_leaf = 3});
  cluster.ConnectAll();
  std::uint32_t edges = 1;
  const auto tell = [&](int host, std::uint32_t count) {
    wire::FlowReport report;
    report.progress = {{.id = wire::LocalFlowId(1), .outstanding_bytes = 1'000, .edges = count}};
    cluster.Report(host, report);
    cluster.Settle();  // no time passes
  };
  const auto gbps = [&](int host) {
    return static_cast<double>(cluster.host(host).sets.at(1).max_rate_bps) * 1e-9;
  };
  for (int i = 0; i < 3; ++i) cluster.Open(i, {{.id = 1, .to = 3 + i, .keeps_rate = true}});
  cluster.Advance(1s);
  for (int i = 0; i < 3; ++i) tell(i, edges);
  for (int i = 0; i < 3; ++i) EXPECT_NEAR(gbps(i), 100.0 / 3, 0.001);
  tell(0, ++edges);
  EXPECT_NEAR(gbps(1), 50, 0.001);
  EXPECT_NEAR(gbps(2), 50, 0.001);
  tell(1, edges);
  EXPECT_NEAR(gbps(2), 100, 0.001);
  // It returns with its old limit, which rises or falls at once.
  tell(0, ++edges);
  EXPECT_NEAR(gbps(0), 50, 0.001);
  EXPECT_NEAR(gbps(2), 50, 0.001);
  cluster.End(2, 1);
  cluster.Settle();
  EXPECT_NEAR(gbps(0), 100, 0.001);
}

}  // namespace
}  // namespace espalier::controller
