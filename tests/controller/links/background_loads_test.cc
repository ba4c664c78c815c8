#include "controller/links/background_loads.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "controller/placement/loads/load_summary.h"
#include "controller/state/fabric_health.h"
#include "tests/controller/cluster.h"

namespace espalier::controller {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr double kRate = 100e9;  // of all links

// Four spines, two leaves with two hosts each; a feed that reports links of leaf0.
class BackgroundLoadsTest : public testing::Test {
 protected:
  BackgroundLoadsTest() { cluster_.ConnectAll(); }

  fabric::DirectedLink Up(int spine) const {
    const auto link = cluster_.topology().FindLink("leaf0--spine" + std::to_string(spine));
    return {*link, true};
  }
  Result<void> Report(int spine, double bps, bool only_background = true) {
    return cluster_.controller().links().background.HandleReport(
        {.source = "feed",
         .loads = {{Up(spine), bps}},
         .only_background = only_background,
         .max_age = seconds(10)},
        cluster_.controller().Now());
  }
  // Of a flow, in force.
  double Base(int spine) {
    const auto base = cluster_.state().flow_paths.assigner().base_loads();
    if (base.empty()) return 0;
    return static_cast<double>(base[Up(spine).Index()]) / static_cast<double>(kLoadUnit);
  }
  int Events(const std::string& kind) {
    int count = 0;
    for (const HistoryEvent& event : cluster_.state().history.Since(0, 100'000))
      count += event.kind == kind ? 1 : 0;
    return count;
  }
  void Achieve(std::uint64_t flow, double bps) {
    wire::FlowReport report;
    report.progress = {{.id = wire::LocalFlowId(flow),
                        .remaining_bytes = 1'000'000'000,
                        .achieved_bps = static_cast<std::uint64_t>(bps)}};
    cluster_.Report(0, report);
    cluster_.Settle();
  }

  class Fabric : public Cluster {
   public:
    using Cluster::Cluster;
    const fabric::Topology& topology() const {
      return const_cast<Fabric*>(this)->controller().state().topology;
    }
  };
  Fabric cluster_{fabric::LeafSpineOptions{.spines = 4, .leaves = 2, .hosts_per_leaf = 2}};
};

TEST_F(BackgroundLoadsTest, CountsInSixteenthsOfTheRate) {
  ASSERT_TRUE(Report(0, 0.52 * kRate));
  EXPECT_DOUBLE_EQ(Base(0), 0.5);
  EXPECT_EQ(Base(1), 0);
  const auto known = cluster_.controller().links().background.Find(Up(0));
  ASSERT_TRUE(known);
  EXPECT_EQ(known->bps, 50'000'000'000);
  EXPECT_EQ(known->reported_bps, 52'000'000'000);
  EXPECT_EQ(known->source, "feed");
  EXPECT_FALSE(cluster_.controller().links().background.Find(Up(1)));
  EXPECT_EQ(Events("background_feed_started"), 1);
  cluster_.state().flow_paths.CheckInvariants();
}

TEST_F(BackgroundLoadsTest, IgnoresSmallChangesAndFallsLate) {
  ASSERT_TRUE(Report(0, 0.05 * kRate));
  EXPECT_EQ(Base(0), 0);
  ASSERT_TRUE(Report(0, 0.5 * kRate));
  const std::uint64_t changes = cluster_.state().flow_paths.changes();
  for (const double part : {0.55, 0.45, 0.5, 0.56}) ASSERT_TRUE(Report(0, part * kRate));
  EXPECT_EQ(cluster_.state().flow_paths.changes(), changes);
  // A feed that toggles counts as what it says at most.
  for (int i = 0; i < 50; ++i) {
    cluster_.Advance(milliseconds(500));
    ASSERT_TRUE(Report(0, i % 2 == 0 ? 0 : 0.5 * kRate));
    EXPECT_DOUBLE_EQ(Base(0), 0.5);
  }
  EXPECT_EQ(cluster_.state().flow_paths.changes(), changes);
  cluster_.Advance(seconds(2));
  ASSERT_TRUE(Report(0, 0));
  EXPECT_DOUBLE_EQ(Base(0), 0.5);
  cluster_.Advance(seconds(4));
  ASSERT_TRUE(Report(0, 0));
  EXPECT_EQ(Base(0), 0);
}

TEST_F(BackgroundLoadsTest, ForgetsAFeedThatGoesSilent) {
  ASSERT_TRUE(Report(0, kRate));
  cluster_.Advance(seconds(9));
  EXPECT_EQ(Base(0), 1);
  cluster_.Advance(seconds(2));
  EXPECT_EQ(Base(0), 0);
  EXPECT_FALSE(cluster_.controller().links().background.Find(Up(0)));
  EXPECT_EQ(Events("background_feed_silent"), 1);
  const auto silent_feeds = [&] { return HealthOf(cluster_.state(), {}, 0, {}).silent_feeds; };
  EXPECT_EQ(silent_feeds(), 1);
  cluster_.Advance(seconds(20));
  EXPECT_EQ(Events("background_feed_silent"), 1);
  EXPECT_EQ(silent_feeds(), 1);
  ASSERT_TRUE(Report(0, kRate));
  EXPECT_EQ(silent_feeds(), 0);
  EXPECT_EQ(Base(0), 1);
  EXPECT_EQ(Events("background_feed_started"), 2);
}

TEST_F(BackgroundLoadsTest, RefusesLiesAsAWhole) {
  const auto& topology = cluster_.topology();
  const fabric::DirectedLink host{*topology.FindLink("h0--leaf0"), true};
  const LinkLoadReport good{
      .source = "feed", .loads = {{Up(0), kRate}}, .only_background = true, .max_age = seconds(10)};
  const auto refuses = [&](LinkLoadReport report) {
    report.loads.insert(report.loads.begin(), {Up(1), kRate / 2});
    const Result<void> taken =
        cluster_.controller().links().background.HandleReport(report, cluster_.controller().Now());
    ASSERT_FALSE(taken.has_value());
    EXPECT_EQ(taken.error().code, ErrorCode::kInvalidArgument);
    EXPECT_EQ(Base(0), 0);
    EXPECT_EQ(Base(1), 0);
    EXPECT_FALSE(cluster_.controller().links().background.Find(Up(1)));
  };
  for (const double bps :
       {-1.0, 1.2 * kRate, std::nan(""), 1e308, std::numeric_limits<double>::infinity()}) {
    LinkLoadReport report = good;
    report.loads[0].bps = bps;
    refuses(report);
  }
  LinkLoadReport report = good;
  report.loads.push_back(report.loads[0]);
  refuses(report);
  report = good;
  report.loads[0].link = host;
  refuses(report);
  report = good;
  report.max_age = {};
  refuses(report);
  report.max_age = std::chrono::hours(2);
  refuses(report);
  for (const std::string& source : {std::string(), std::string(64, 'x'), std::string("a\nb")}) {
    report = good;
    report.source = source;
    refuses(report);
  }
  // A little above the rate is the rate.
  ASSERT_TRUE(Report(0, 1.05 * kRate));
  EXPECT_EQ(Base(0), 1);
}

TEST_F(BackgroundLoadsTest, FlowsAvoidAFilledLinkAndLeaveOne) {
  ASSERT_TRUE(Report(0, 0.9 * kRate));
  cluster_.Open(0, {{.id = 1, .to = 2}, {.id = 2, .to = 3}, {.id = 3, .to = 2}});
  cluster_.Advance(seconds(1));
  for (const std::uint64_t flow : {1, 2, 3}) {
    const Flow& of = cluster_.FlowOf(0, flow);
    EXPECT_NE(cluster_.state().flow_paths.PathOf(of.subflows[0])->Index(), 0U) << flow;
  }
  // The foreign flow comes to the first flow's link, and the other one ends.
  const auto first = cluster_.state().flow_paths.PathOf(cluster_.FlowOf(0, 1).subflows[0]);
  cluster_.Advance(seconds(6));
  ASSERT_TRUE(Report(0, 0));
  ASSERT_TRUE(Report(static_cast<int>(first->Index()), 0.9 * kRate));
  cluster_.Advance(seconds(1));
  EXPECT_EQ(cluster_.state().flow_paths.PathOf(cluster_.FlowOf(0, 1).subflows[0])->Index(), 0U);
  cluster_.state().flow_paths.CheckInvariants();
}

TEST_F(BackgroundLoadsTest, TakesOwnFlowsOffWhatSwitchesCount) {
  cluster_.Open(0, {{.id = 1, .to = 2}});
  cluster_.Advance(seconds(1));
  const auto path = cluster_.state().flow_paths.PathOf(cluster_.FlowOf(0, 1).subflows[0]);
  const int spine = static_cast<int>(path->Index());
  Achieve(1, 0.9 * kRate);
  for (int i = 0; i < 10; ++i) {
    cluster_.Advance(milliseconds(500));
    ASSERT_TRUE(Report(spine, 0.95 * kRate, false));
    EXPECT_EQ(Base(spine), 0) << i;
  }
  // A foreign flow takes half of the link; one report alone is not believed.
  Achieve(1, 0.45 * kRate);
  cluster_.Advance(milliseconds(500));
  ASSERT_TRUE(Report(spine, 0.95 * kRate, false));
  EXPECT_EQ(Base(spine), 0);
  cluster_.Advance(milliseconds(500));
  ASSERT_TRUE(Report(spine, 0.95 * kRate, false));
  EXPECT_NEAR(Base(spine), 0.47, 0.04);
  // The flow has left the link.
  EXPECT_NE(cluster_.state().flow_paths.PathOf(cluster_.FlowOf(0, 1).subflows[0])->Index(),
            path->Index());
}

// Switches that report more often than agents tell of their flows' rates.
TEST_F(BackgroundLoadsTest, TakesNoStartOfAnOwnFlowForBackground) {
  cluster_.Open(0, {{.id = 1, .to = 2}});
  cluster_.Advance(seconds(1));
  const auto path = cluster_.state().flow_paths.PathOf(cluster_.FlowOf(0, 1).subflows[0]);
  const int spine = static_cast<int>(path->Index());
  ASSERT_TRUE(Report(spine, 0, false));
  for (int i = 0; i < 30; ++i) {
    if (i == 3) Achieve(1, 0.9 * kRate);
    cluster_.Advance(milliseconds(100));
    ASSERT_TRUE(Report(spine, 0.95 * kRate, false));
    EXPECT_EQ(Base(spine), 0) << i;
  }
  // A foreign flow takes half of the link.
  Achieve(1, 0.45 * kRate);
  for (int i = 0; i < 12; ++i) {
    cluster_.Advance(milliseconds(100));
    ASSERT_TRUE(Report(spine, 0.95 * kRate, false));
  }
  EXPECT_NEAR(Base(spine), 0.47, 0.07);
}

// The feed begins while an own flow pauses; what it counts was sent before.
TEST_F(BackgroundLoadsTest, DoNotBelieveAFirstReportOnALinkOfAnOwnFlow) {
  cluster_.Open(0, {{.id = 1, .to = 2}});
  cluster_.Advance(seconds(1));
  const auto path = cluster_.state().flow_paths.PathOf(cluster_.FlowOf(0, 1).subflows[0]);
  const int spine = static_cast<int>(path->Index());
  Achieve(1, 0);
  ASSERT_TRUE(Report(spine, 0.9 * kRate, false));
  EXPECT_EQ(Base(spine), 0);
  Achieve(1, 0.9 * kRate);
  for (int i = 0; i < 5; ++i) {
    cluster_.Advance(milliseconds(500));
    ASSERT_TRUE(Report(spine, 0.95 * kRate, false));
    EXPECT_EQ(Base(spine), 0) << i;
  }
}

TEST_F(BackgroundLoadsTest, CountInRecomputationsAndDryRuns) {
  cluster_.Open(0, {{.id = 1, .to = 2}, {.id = 2, .to = 3}});
  cluster_.Advance(seconds(1));
  ASSERT_TRUE(Report(2, kRate));
  ASSERT_TRUE(Report(3, kRate));
  EXPECT_EQ(Summarize(cluster_.state()).max_load, (Load{1, 1}));
  EXPECT_TRUE(Summarize(cluster_.state()).IsOptimal());
  // Without spine 1, one flow has to share a link with the other one or with the foreign one.
  const auto fail = cluster_.ChangeLink("leaf0--spine1", IntentAction::kFail, {.dry_run = true});
  ASSERT_TRUE(fail.has_value());
  EXPECT_EQ(fail->after.max_load, (Load{2, 1}));
  EXPECT_EQ(fail->after.lower_bound, (Load{2, 1}));
  const auto recomputed = cluster_.Recompute({});
  ASSERT_TRUE(recomputed.has_value());
  EXPECT_TRUE(recomputed->moves.empty());
}

}  // namespace
}  // namespace espalier::controller
