// Steering on a live fabric whose switches agree on their routes by BGP, with FRR's daemons.
#include "deploy/lab/frr.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>

#include "deploy/demo/main_job.h"
#include "deploy/demo/measured_run.h"
#include "deploy/lab/link_faults.h"
#include "deploy/lab/run_traffic.h"
#include "tests/deploy/demo/live_lab.h"

namespace espalier::demo {
namespace {

constexpr int kSeed = 1;
constexpr int kFlows = 8;
// From the spine to the other hosts' leaf: a far link for all other leaves.
constexpr const char* kFarLink = "leaf1--spine0";

class FrrTest : public LiveLabTest {
 protected:
  void SetUp() override {
    if (const auto found = lab::CheckFrr(); !found) GTEST_SKIP() << found.error().message;
    StartLab({.spines = 4,
              .leaves = 4,
              .hosts_per_leaf = 2,
              .link_rate = BitsPerSecond{50'000'000},
              .seed = kSeed,
              .routing = lab::Routing::kFrr});
    // So often that the ports of flows that last a second have their turn.
    if (lab_) StartDaemons("verify_all_within_seconds: 10\nverify_interval_ms: 100\n");
  }

  std::optional<MeasuredRun> Run() {
    const auto permutation = MakePermutation(lab_->layout());
    EXPECT_TRUE(permutation.has_value());
    const auto run = RunMeasured(*lab_, *permutation, kSeed, &*daemons_);
    EXPECT_TRUE(run.has_value()) << run.error().message;
    if (!run) return std::nullopt;
    EXPECT_TRUE(run->completed);
    return *run;
  }
  // Runs again until all flows are steered and none is elsewhere than decided: the switches need
  // some seconds to agree, and the controller a few runs to see it.
  void ExpectGoodRuns(const char* when) {
    int wrong = kFlows;
    for (int round = 0; round < 20 && wrong != 0; ++round) {
      const auto run = Run();
      ASSERT_TRUE(run.has_value());
      wrong = run->mismatches + std::abs(run->steered_flows - kFlows);
      fmt::print("{}, run {}: {} steered, {} elsewhere, {} on the worst link\n", when, round,
                 run->steered_flows, run->mismatches, run->max_leaf_link_flows);
    }
    EXPECT_EQ(wrong, 0) << when << Events();
  }
  void Operator(const char* action) {
    const auto done = daemons_->Post(fmt::format("/api/v1/links/{}?id={}", action, kFarLink));
    ASSERT_TRUE(done.has_value()) << done.error().message;
  }
};

// When a far link fails, the other leaves lose a next hop for one destination, and hash its flows
// over those that are left.
TEST_F(FrrTest, FollowsRoutesThatAreWithdrawnAndComeBack) {
  if (!daemons_) return;
  ExpectGoodRuns("all links are up");
  ASSERT_TRUE(lab::FailLink(*lab_, kFarLink, lab::LinkEnd::kB).value_or(false));
  Operator("fail");
  ExpectGoodRuns("a link is down");
  ASSERT_TRUE(lab::RestoreLink(*lab_, kFarLink).value_or(false));
  Operator("restore");
  ExpectGoodRuns("it is back");
}

// Nobody tells the controller. The switches find other ways within some tenths of a second; the
// controller sees by its probes that ports lead elsewhere, and learns them again.
TEST_F(FrrTest, LearnsByItselfThatRoutesWereWithdrawn) {
  if (!daemons_) return;
  ExpectGoodRuns("all links are up");
  const auto permutation = MakePermutation(lab_->layout());
  ASSERT_TRUE(permutation.has_value());
  bool has_failed = false;
  lab::TrafficOptions options;
  options.seed = kSeed;
  options.use_agents = true;
  options.on_running = [&](std::chrono::nanoseconds since) {
    if (has_failed || since < std::chrono::milliseconds(400)) return;
    has_failed = true;
    EXPECT_TRUE(lab::FailLink(*lab_, kFarLink, lab::LinkEnd::kB).value_or(false));
  };
  const auto during = lab::RunTraffic(*lab_, permutation->workload, options);
  ASSERT_TRUE(during.has_value()) << during.error().message;
  EXPECT_TRUE(has_failed);
  EXPECT_TRUE(std::ranges::all_of(during->flows, &lab::FlowOutcome::IsWhole));
  ExpectGoodRuns("a link is down");
}

}  // namespace
}  // namespace espalier::demo
