#include "tests/studies/lab/tree_job.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <optional>

#include "deploy/lab/ground_truth.h"
#include "deploy/lab/link_faults.h"
#include "tests/temporary_folder.h"

namespace espalier::demo {
namespace {

// An all-reduce of all hosts of a 4x4x4 lab, with a real controller, 16 agents and 16 ranks.
// Times are printed, not asserted.
class TreeJobTest : public testing::Test {
 protected:
  static constexpr std::int64_t kBytes = 2'000'000;
  static constexpr int kCalls = 2;

  void SetUp() override {
    auto lab = lab::Lab::Start({.name = fmt::format("test-{}", getpid()),
                                .link_rate = BitsPerSecond{50'000'000},
                                .seed = 1,
                                .die_with_caller = true});
    if (!lab && (lab.error().code == ErrorCode::kPermissionDenied ||
                 lab.error().code == ErrorCode::kUnsupported)) {
      GTEST_SKIP() << "no network namespaces here: " << lab.error().message;
    }
    ASSERT_TRUE(lab.has_value()) << lab.error().message;
    lab_.emplace(std::move(*lab));
    auto daemons = LabDaemons::Start(*lab_, ESPALIER_PROGRAMS, folder_.path());
    ASSERT_TRUE(daemons.has_value()) << daemons.error().message;
    daemons_.emplace(std::move(*daemons));
  }
  void TearDown() override {
    daemons_.reset();
    if (lab_) {
      EXPECT_TRUE(lab::Lab::Stop(lab_->record().options.name).has_value());
    }
  }

  void FailSpine() {
    for (int leaf = 0; leaf < 4; ++leaf) {
      ASSERT_TRUE(lab::FailLink(*lab_, fmt::format("leaf{}--spine1", leaf)).has_value());
    }
    ASSERT_TRUE(daemons_->Post("/api/v1/nodes/fail?id=spine1").has_value());
  }
  void RestoreSpine() {
    for (int leaf = 0; leaf < 4; ++leaf) {
      ASSERT_TRUE(lab::RestoreLink(*lab_, fmt::format("leaf{}--spine1", leaf)).has_value());
    }
    ASSERT_TRUE(daemons_->Post("/api/v1/nodes/restore?id=spine1").has_value());
  }
  Result<RanksRun> RunRing() {
    return RunRanks(*lab_, ESPALIER_PROGRAMS,
                    {.bytes = kBytes, .calls = kCalls, .job = "", .on_running = nullptr});
  }
  // Runs a job from start to end and compares it with the spines' counters.
  void RunJob(bool offload, double ring_seconds) {
    const std::string name = offload ? "offloaded" : "inline";
    const auto started = StartTreeJob(*daemons_, *lab_, name, kBytes, offload);
    ASSERT_TRUE(started.has_value()) << started.error().message;
    const auto plan = ReadPlan(*daemons_, name);
    ASSERT_TRUE(plan.has_value());
    const auto before = lab::ReadFlowCounts(*lab_);
    const auto run =
        RunRanks(*lab_, ESPALIER_PROGRAMS,
                 {.bytes = kBytes, .calls = kCalls, .job = name, .on_running = nullptr});
    const auto after = lab::ReadFlowCounts(*lab_);
    ASSERT_TRUE(run.has_value()) << run.error().message;
    ASSERT_TRUE(before.has_value() && after.has_value());
    EXPECT_TRUE(run->completed);
    EXPECT_EQ(run->wrong_sums, 0);
    const auto counts = lab::Difference(*before, *after);
    const CounterComparison comparison = CompareWithCounters(*plan, kBytes, kCalls, counts);
    EXPECT_GT(comparison.edges, 0);
    EXPECT_EQ(comparison.silent_edges, 0);
    EXPECT_THAT(comparison.stray_connections, testing::IsEmpty());
    EXPECT_GE(comparison.least_payload, 1.0);
    EXPECT_LE(comparison.most_payload, 1.5);  // TCP may retransmit some of it
    fmt::print(
        "forest, {:<10} {:.2f} s, ring {:.2f} s, ratio {:.2f}; {} edges, payload {:.3f} to "
        "{:.3f} of the plan\n",
        name, run->Median(), ring_seconds, ring_seconds / run->Median(), comparison.edges,
        comparison.least_payload, comparison.most_payload);
    EXPECT_TRUE(StopTreeJob(*daemons_, name).has_value());
  }

  int CollectivesDone() {
    const auto answer = daemons_->Get("/api/v1/forests");
    EXPECT_TRUE(answer.has_value());
    return std::stoi(answer->Find("forests")->items[0].Find("collectives_done")->text);
  }

  std::optional<lab::Lab> lab_;
  TemporaryFolder folder_;
  std::optional<LabDaemons> daemons_;
};

TEST_F(TreeJobTest, EveryPacketOfEveryEdgeTakesItsSpineAlsoAfterOneHasFailed) {
  for (const bool spine_failed : {false, true}) {
    if (spine_failed) FailSpine();
    const auto ring = RunRing();
    ASSERT_TRUE(ring.has_value()) << ring.error().message;
    EXPECT_TRUE(ring->completed);
    EXPECT_EQ(ring->wrong_sums, 0);
    RunJob(/*offload=*/false, ring->Median());
    RunJob(/*offload=*/true, ring->Median());
  }
}

TEST_F(TreeJobTest, ASpineThatFailsBetweenAndDuringCallsCostsNoSum) {
  ASSERT_TRUE(StartTreeJob(*daemons_, *lab_, "long", kBytes, false).has_value());
  const auto first = AwaitPlan(*daemons_, "long", "");
  ASSERT_TRUE(first.has_value());
  bool failed = false;
  const auto run = RunRanks(*lab_, ESPALIER_PROGRAMS,
                            {.bytes = kBytes, .calls = 8, .job = "long", .on_running = [&] {
                               if (failed) return;
                               failed = CollectivesDone() >= 4;  // once a few are done
                               if (failed) FailSpine();
                             }});
  ASSERT_TRUE(run.has_value()) << run.error().message;
  EXPECT_TRUE(failed);
  EXPECT_TRUE(run->completed);
  EXPECT_EQ(run->wrong_sums, 0);
  EXPECT_TRUE(AwaitPlan(*daemons_, "long", *first).has_value());
  fmt::print("calls of {} bytes:", kBytes);
  for (const double seconds : run->seconds) fmt::print(" {:.2f}", seconds);
  fmt::print(" s\n");
}

// Like flows, job plans in force stay unchanged when a spine comes back, until the operator asks.
TEST_F(TreeJobTest, ASpineThatComesBackIsUsedAgainOnTheOperatorsWord) {
  const auto edges_over_spine = [&] {
    const auto plan = ReadPlan(*daemons_, "back");
    EXPECT_TRUE(plan.has_value());
    return plan ? std::ranges::count(*plan, "spine1", &PlannedEdge::via) : -1;
  };
  ASSERT_TRUE(StartTreeJob(*daemons_, *lab_, "back", kBytes, false).has_value());
  EXPECT_GT(edges_over_spine(), 0);
  const auto first = AwaitPlan(*daemons_, "back", "");
  ASSERT_TRUE(first.has_value());
  FailSpine();
  const auto second = AwaitPlan(*daemons_, "back", *first);
  ASSERT_TRUE(second.has_value());
  EXPECT_EQ(edges_over_spine(), 0);
  RestoreSpine();
  bool is_asked = false;
  const auto run = RunRanks(*lab_, ESPALIER_PROGRAMS,
                            {.bytes = kBytes, .calls = 8, .job = "back", .on_running = [&] {
                               if (is_asked || CollectivesDone() < 3) return;
                               is_asked = true;
                               EXPECT_EQ(edges_over_spine(), 0);
                               ASSERT_TRUE(daemons_->Post("/api/v1/recompute").has_value());
                             }});
  ASSERT_TRUE(run.has_value()) << run.error().message;
  EXPECT_TRUE(is_asked);
  EXPECT_TRUE(run->completed);
  EXPECT_EQ(run->failed_calls, 0);
  EXPECT_EQ(run->wrong_sums, 0);
  ASSERT_TRUE(AwaitPlan(*daemons_, "back", *second).has_value());
  EXPECT_GT(edges_over_spine(), 0);
  ASSERT_TRUE(StopTreeJob(*daemons_, "back").has_value());
  const auto ring = RunRing();
  ASSERT_TRUE(ring.has_value()) << ring.error().message;
  RunJob(/*offload=*/false, ring->Median());
}

// The other leaves continue to send to a spine without a usable link. Every rank waits in its
// current call until the controller learns of the failure, and then repeats the call with a new
// plan.
TEST_F(TreeJobTest, AFarLinkThatDiesInACallHasItDoneAgainByANewPlan) {
  ASSERT_TRUE(StartTreeJob(*daemons_, *lab_, "far", kBytes, false).has_value());
  const auto first = AwaitPlan(*daemons_, "far", "");
  ASSERT_TRUE(first.has_value());
  constexpr int kStill = 15;  // polls with the same number of completed calls
  bool is_cut = false;
  bool is_told = false;
  int done = 0;
  int still = 0;
  const auto run =
      RunRanks(*lab_, ESPALIER_PROGRAMS,
               {.bytes = kBytes, .calls = 6, .job = "far", .on_running = [&] {
                  if (is_told) return;
                  const int now = CollectivesDone();
                  still = now == done ? still + 1 : 0;
                  done = now;
                  if (!is_cut && done >= 4) {
                    is_cut = true;
                    still = 0;
                    ASSERT_TRUE(lab::FailLink(*lab_, "leaf2--spine1").has_value());
                  }
                  if (!is_cut || still < kStill) return;
                  is_told = true;
                  ASSERT_TRUE(daemons_->Post("/api/v1/links/fail?id=leaf2--spine1").has_value());
                }});
  ASSERT_TRUE(run.has_value()) << run.error().message;
  EXPECT_TRUE(is_told) << "the calls went on without the link";
  EXPECT_TRUE(run->completed);
  EXPECT_EQ(run->failed_calls, 0);
  EXPECT_EQ(run->wrong_sums, 0);
  EXPECT_TRUE(AwaitPlan(*daemons_, "far", *first).has_value());
}

class LongTreeJobTest : public TreeJobTest {};

// If the controller is not told, the call ends with an error at every rank, and not with incomplete
// sums. Programs without a plan use their rendezvous store and plain ECMP.
TEST_F(LongTreeJobTest, AFarLinkThatNobodyTellsOfEndsTheCallAtEveryRank) {
  constexpr int kRanks = 16;
  auto run = RunRanks(*lab_, ESPALIER_PROGRAMS,
                      {.bytes = kBytes,
                       .calls = 1,
                       .job = "silent",
                       .may_be_plain = true,
                       .timeout_ms = 6'000,
                       .on_running = nullptr});
  ASSERT_TRUE(run.has_value()) << run.error().message;
  EXPECT_TRUE(run->completed);
  EXPECT_EQ(run->wrong_sums, 0);

  ASSERT_TRUE(StartTreeJob(*daemons_, *lab_, "silent", kBytes, false).has_value());
  bool is_cut = false;
  constexpr int kMoreCalls = 20;
  run = RunRanks(*lab_, ESPALIER_PROGRAMS,
                 {.bytes = kBytes,
                  .calls = kMoreCalls,
                  .job = "silent",
                  .timeout_ms = 3'000,
                  .on_running = [&] {
                    if (is_cut || CollectivesDone() < 4) return;
                    is_cut = true;
                    ASSERT_TRUE(lab::FailLink(*lab_, "leaf2--spine1").has_value());
                  }});
  ASSERT_TRUE(run.has_value()) << run.error().message;
  EXPECT_TRUE(is_cut);
  EXPECT_FALSE(run->completed);
  EXPECT_GE(run->failed_calls, kRanks);
  EXPECT_EQ(run->wrong_sums, 0);

  ASSERT_TRUE(lab::RestoreLink(*lab_, "leaf2--spine1").has_value());
  run = RunRanks(*lab_, ESPALIER_PROGRAMS,
                 {.bytes = kBytes, .calls = 1, .job = "silent", .on_running = nullptr});
  ASSERT_TRUE(run.has_value()) << run.error().message;
  EXPECT_TRUE(run->completed);
  EXPECT_EQ(run->wrong_sums, 0);
}

}  // namespace
}  // namespace espalier::demo
