// The rates at which flows settle.
#include "controller/placement/balance/rate_planner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/controller/cluster.h"

namespace espalier::controller {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t kGigabit = 1'000'000'000;

wire::FlowProgress Sending(std::uint64_t id, std::uint64_t gbps, std::uint32_t edges = 0) {
  return {.id = wire::LocalFlowId(id),
          .remaining_bytes = 1 << 30,
          .outstanding_bytes = 1'000,
          .achieved_bps = gbps * kGigabit,
          .edges = edges};
}

// Flow 1 of each of these hosts sends so fast, for as long as demands take to grow.
void Send(Cluster& cluster, const std::vector<int>& hosts, std::uint64_t gbps) {
  for (int round = 0; round < 10; ++round) {
    for (const int host : hosts) {
      wire::FlowReport report;
      report.progress = {Sending(1, gbps)};
      cluster.Report(host, std::move(report));
    }
    cluster.Advance(100ms);
  }
}

TEST(RatePlannerTest, AreTheRatesAtWhichFlowsSettleAndFollowChanges) {
  Cluster cluster({.spines = 2, .leaves = 2, .hosts_per_leaf = 3},
                  {.limit_rates = RateLimits::kOn});
  cluster.ConnectAll();
  for (int i = 0; i < 3; ++i) cluster.Open(i, {{.id = 1, .to = 3 + i, .max_paths = 2}});
  Send(cluster, {0, 1, 2}, 60);
  const auto gbps = [&](int host) {
    return static_cast<double>(cluster.host(host).sets.at(1).max_rate_bps) * 1e-9;
  };
  // Two links of 100 Gbit/s for three flows; then each its NIC's rate.
  for (int i = 0; i < 3; ++i) EXPECT_NEAR(gbps(i), 200.0 / 3, 0.001);
  const std::size_t pushes = cluster.host(1).pushes.size();
  Send(cluster, {0, 1, 2}, 60);
  EXPECT_EQ(cluster.host(1).pushes.size(), pushes);
  cluster.End(0, 1);
  Send(cluster, {1, 2}, 60);
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
    Send(cluster, {0, 1, 2}, 100);
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
  Send(cluster, {0, 1}, 50);
  // Half of the only link: flows that keep no rate count, too.
  EXPECT_NEAR(static_cast<double>(cluster.host(1).sets.at(1).max_rate_bps), 50e9, 1e6);
  EXPECT_EQ(cluster.host(0).sets.at(1).max_rate_bps, 0U);
  ASSERT_TRUE(cluster.ChangePolicy("limit_rates", "true"));
  Send(cluster, {0, 1}, 50);
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
    report.progress = {Sending(1, 100, count)};
    cluster.Report(host, report);
    cluster.Settle();  // no time passes
  };
  const auto gbps = [&](int host) {
    return static_cast<double>(cluster.host(host).sets.at(1).max_rate_bps) * 1e-9;
  };
  for (int i = 0; i < 3; ++i) cluster.Open(i, {{.id = 1, .to = 3 + i, .keeps_rate = true}});
  Send(cluster, {0, 1, 2}, 100);
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

// Eight honest flows share a NIC. A program on another host announces thousands to it.
class InventedFlows : public testing::Test {
 protected:
  InventedFlows() {
    cluster_.ConnectAll();
    for (std::uint64_t id = 1; id <= 8; ++id) {
      cluster_.Open(0, {{.id = id, .to = 4, .keeps_rate = true}});
    }
    for (int round = 0; round < 10; ++round) Send();
  }
  // The honest flows send as fast as the limits of before allow.
  void Send() {
    wire::FlowReport report;
    for (std::uint64_t id = 1; id <= 8; ++id) {
      report.progress.push_back(Sending(id, 12));
      report.progress.back().sent_bytes = ++sent_;
    }
    cluster_.Report(0, std::move(report));
    cluster_.Advance(100ms);
  }
  void Invent(std::uint64_t flows) {
    wire::FlowReport report{.jobs = {"lie"}};
    report.addresses = {cluster_.Address(1), cluster_.Address(4)};
    for (std::uint64_t id = 1; id <= flows; ++id) {
      report.opened.push_back(
          {.id = wire::LocalFlowId(id), .destination = 1, .protocol = 17, .path_ports = {}});
      report.progress.push_back({.id = wire::LocalFlowId(id), .remaining_bytes = 1 << 30});
    }
    cluster_.Report(1, std::move(report));
  }
  double LeastGbps() {
    double least = 1e9;
    for (std::uint64_t id = 1; id <= 8; ++id) {
      least = std::min(least, 1e-9 * static_cast<double>(cluster_.FlowOf(0, id).max_rate_bps));
    }
    return least;
  }

  Cluster cluster_{{.spines = 4, .leaves = 2, .hosts_per_leaf = 4}};
  std::uint64_t sent_ = 0;
};

TEST_F(InventedFlows, ThatSendNothingTakeNothing) {
  const double before = LeastGbps();
  EXPECT_NEAR(before, 12.5, 0.01);
  Invent(4'000);
  for (int round = 0; round < 30; ++round) {
    Send();
    EXPECT_GE(LeastGbps(), before * (round < 15 ? 0.9 : 0.999)) << round;
  }
}

TEST_F(InventedFlows, ThatClaimToSendTakeLittle) {
  const double before = LeastGbps();
  Invent(4'000);
  for (int round = 0; round < 30; ++round) {
    wire::FlowReport report;
    for (std::uint64_t id = 1; id <= 4'000; ++id) report.progress.push_back(Sending(id, 100));
    cluster_.Report(1, std::move(report));
    Send();
    EXPECT_GE(LeastGbps(), before * 0.85) << round;
  }
}

// What links have left belongs to whoever can use it.
TEST_F(InventedFlows, NoLimitIsBelowWhatAchievedRatesLeave) {
  Cluster cluster({.spines = 1, .leaves = 2, .hosts_per_leaf = 3});
  cluster.ConnectAll();
  for (int i = 0; i < 2; ++i) cluster.Open(i, {{.id = 1, .to = 3 + i, .keeps_rate = true}});
  for (int round = 0; round < 10; ++round) {
    for (int i = 0; i < 2; ++i) {
      wire::FlowReport report;
      report.progress = {Sending(1, i == 0 ? 5 : 80)};
      cluster.Report(i, std::move(report));
    }
    cluster.Advance(100ms);
  }
  EXPECT_GE(cluster.FlowOf(1, 1).max_rate_bps, 89 * kGigabit);
  EXPECT_GE(cluster.FlowOf(0, 1).max_rate_bps, 10 * kGigabit);
}

}  // namespace
}  // namespace espalier::controller
