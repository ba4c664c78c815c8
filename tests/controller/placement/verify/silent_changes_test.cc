// Routes and switches that change without anybody's word, and flows that wait.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>

#include "controller/placement/loads/load_summary.h"
#include "controller/placement/verify/spread_watch.h"
#include "tests/controller/four_flows.h"

namespace espalier::controller {
namespace {

using namespace std::chrono_literals;

class SilentChanges : public testing::Test {
 protected:
  void SetUp() override {
    cluster_.ConnectAll();
    OpenFourFlows(cluster_);
  }
  std::int64_t Count(const std::string& kind) {
    const auto events = cluster_.state().history.Since(0, 10'000);
    return std::ranges::count(events, kind, &HistoryEvent::kind);
  }
  FabricHealth Health() { return HealthOf(cluster_.state(), CountReach(cluster_.state()), 0, {}); }
  bool Says(const std::string& words) {
    const auto reasons = Health().Reasons();
    return std::ranges::any_of(reasons, [&](const std::string& reason) {
      return reason.find(words) != std::string::npos;
    });
  }
  std::size_t Pushes() {
    std::size_t pushes = 0;
    for (int i = 0; i < 4; ++i) pushes += cluster_.host(i).pushes.size();
    return pushes;
  }

  Cluster cluster_{kFourLeaves, {.verification = {.interval = 100ms}}};
};

// Their flows never pause, and no link is reported.
TEST_F(SilentChanges, FlowsAreSpreadAgainWhenANextHopReturns) {
  ASSERT_EQ(SpinesOfFourFlows(cluster_).size(), 4U);
  const auto before = cluster_.hash;
  cluster_.hash = [before](int from, int to, std::uint16_t port) {
    const int spine = before(from, to, port);
    return spine == 0 ? 1 : spine;
  };
  cluster_.Advance(30s);
  EXPECT_EQ(SpinesOfFourFlows(cluster_).size(), 3U);
  cluster_.hash = before;
  cluster_.Advance(30s);
  EXPECT_EQ(SpinesOfFourFlows(cluster_).size(), 4U);
  EXPECT_TRUE(Summarize(cluster_.state()).IsOptimal());
  EXPECT_EQ(Count("switch_sprays"), 0);
}

TEST_F(SilentChanges, ASwitchThatSpraysIsLeftAlone) {
  std::mt19937 random(1);
  const auto before = cluster_.hash;
  cluster_.hash = [&random, before](int from, int to, std::uint16_t port) {
    return from < 4 ? static_cast<int>(random() % 4) : before(from, to, port);
  };
  cluster_.Advance(60s);
  EXPECT_GE(Count("switch_sprays"), 1);
  EXPECT_LE(Count("switch_sprays"), 4);
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(cluster_.FlowOf(i, 1).status, FlowStatus::kUnsteered) << i;
  }
  EXPECT_TRUE(Says("leaf0 sprays packets"));
  EXPECT_FALSE(Summarize(cluster_.state()).IsOptimal());
  const std::size_t pushes = Pushes();
  const int probes = cluster_.host(0).probes;
  const std::int64_t mismatches = Count("path_map_mismatch");
  cluster_.Advance(60s);
  EXPECT_EQ(Pushes(), pushes);
  EXPECT_LE(cluster_.host(0).probes - probes, 2 * static_cast<int>(SprayDetector::kProbes));
  EXPECT_EQ(Count("path_map_mismatch"), mismatches);
  cluster_.Open(4, {{.id = 1, .to = 8}});  // others are steered
  cluster_.Settle();
  EXPECT_EQ(cluster_.FlowOf(4, 1).status, FlowStatus::kRouted);

  cluster_.hash = before;
  cluster_.Advance(150s);
  EXPECT_GE(Count("switch_sprays_no_longer"), 1);
  EXPECT_EQ(cluster_.FlowOf(0, 1).status, FlowStatus::kRouted);
  EXPECT_FALSE(Says("sprays"));
}

TEST_F(SilentChanges, AFlowThatWaitsForAPortIsDegradedAfterFiveSeconds) {
  cluster_.host(8).answers_probes = false;
  cluster_.Open(8, {{.id = 1, .to = 4}});
  cluster_.Advance(2s);
  ASSERT_EQ(cluster_.FlowOf(8, 1).status, FlowStatus::kLearning);
  EXPECT_EQ(Health().word(), FabricHealth::Word::kOk);
  EXPECT_FALSE(Summarize(cluster_.state()).IsOptimal());
  cluster_.Advance(8s);
  EXPECT_EQ(Health().word(), FabricHealth::Word::kDegraded);
  EXPECT_TRUE(Says("1 flow has waited for a source port for more than 5 s"));
  EXPECT_TRUE(Says("`espalier explain 'h8:1'`"));
  cluster_.host(8).answers_probes = true;
  cluster_.Advance(20s);
  EXPECT_EQ(Health().word(), FabricHealth::Word::kOk);
}

}  // namespace
}  // namespace espalier::controller
