// Steering on a live fabric of three tiers: two pods of two leaves and two aggregation switches,
// below four cores.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "deploy/demo/failover.h"
#include "deploy/demo/main_job.h"
#include "deploy/demo/measured_run.h"
#include "deploy/demo/spine_check.h"
#include "deploy/lab/ground_truth.h"
#include "deploy/lab/link_faults.h"
#include "deploy/lab/run_traffic.h"
#include "tests/deploy/demo/live_lab.h"
#include "tests/deploy/demo/tree_run.h"

namespace espalier::demo {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;

constexpr int kSeed = 1;

class ClosTest : public LiveLabTest {
 protected:
  void StartPods(lab::HashSeeds seeds) {
    StartLab({.spines = 2,
              .leaves = 2,
              .hosts_per_leaf = 2,
              .pods = 2,
              .cores = 4,
              .link_rate = BitsPerSecond{50'000'000},
              .seed = kSeed,
              .hash_seeds = seeds});
    if (lab_) StartDaemons();
  }
  // Has an operator do this. Returns the load of the most loaded link before and after it.
  std::string Do(const std::string& action) const {
    const auto answer = daemons_->Post("/api/v1/" + action);
    if (!answer) return answer.error().message;
    return answer->Find("max_load_before")->text + " to " + answer->Find("max_load")->text;
  }
};

TEST_F(ClosTest, SteersOverBothTiersAndOffACoreLinkThatFails) {
  StartPods(lab::HashSeeds::kDistinct);
  if (!daemons_) return;
  const auto permutation = MakePermutation(lab_->layout());
  ASSERT_TRUE(permutation.has_value());
  const auto run = RunMeasured(*lab_, *permutation, kSeed, &*daemons_);
  ASSERT_TRUE(run.has_value()) << run.error().message;
  EXPECT_TRUE(run->completed);
  EXPECT_EQ(run->max_leaf_link_flows, 1);
  EXPECT_EQ(run->max_core_link_flows, 1);
  EXPECT_EQ(run->steered_flows, 8);
  EXPECT_EQ(run->mismatches, 0);

  const auto ring =
      MakeRingJobs(lab_->layout(), {.name = "one-ring", .jobs = 1, .stages = 1, .epochs = 3});
  ASSERT_TRUE(ring.has_value());
  const auto failure =
      RunWithFailure(*lab_, *ring, kSeed, *daemons_, Detection::kOperator, FarLink::kFromCore);
  ASSERT_TRUE(failure.has_value()) << failure.error().message;
  EXPECT_TRUE(failure->job_completed);
  EXPECT_EQ(failure->dead_flows, 0);
  EXPECT_GE(failure->flows_moved, 1);
  EXPECT_TRUE(failure->link.starts_with("agg")) << failure->link;
}

// While two links of an aggregation switch to cores are failed, flows share others. An operator who
// restores them asks for a recomputation in the same breath, and flows in progress spread again.
TEST_F(ClosTest, RecomputesThePathsOfFlowsInProgressOnBothTiers) {
  StartPods(lab::HashSeeds::kDistinct);
  if (!daemons_) return;
  auto permutation = MakePermutation(lab_->layout());
  ASSERT_TRUE(permutation.has_value());
  const std::int64_t bytes = 6 * permutation->flow_bytes;
  for (traffic::SingleFlow& flow : permutation->workload.flows) flow.bytes = bytes;
  const auto before = lab::ReadFlowCounts(*lab_);
  ASSERT_TRUE(before.has_value());
  std::vector<std::string> loads;
  lab::TrafficOptions options{.seed = kSeed, .use_agents = true};
  options.time_limit = 120s;
  bool is_done = false;
  options.on_running = [&](std::chrono::nanoseconds passed) {
    if (passed < 1s || std::exchange(is_done, true)) return;
    for (const char* action :
         {"links/fail?id=agg0--core0", "links/fail?id=agg0--core1", "links/restore?id=agg0--core0",
          "links/restore?id=agg0--core1", "recompute"}) {
      loads.push_back(Do(action));
    }
  };
  const auto result = lab::RunTraffic(*lab_, permutation->workload, options);
  ASSERT_TRUE(result.has_value()) << result.error().message;
  EXPECT_TRUE(result->completed);
  EXPECT_THAT(loads, ElementsAre("1 to 2", "2 to 2", "2 to 2", "2 to 2", "2 to 1")) << Events();
  const auto after = lab::ReadFlowCounts(*lab_);
  ASSERT_TRUE(after.has_value());
  const auto counts = lab::Difference(*before, *after);
  for (const auto& [direction, flows] :
       lab::CountFlowsPerDirection(lab_->topology(), counts, bytes / 2)) {
    EXPECT_LE(flows, 1) << direction;
  }
  const auto check = CheckSpines(*lab_, *result, counts, *daemons_);
  ASSERT_TRUE(check.has_value()) << check.error().message;
  EXPECT_GE(check->steered_flows, 8);
  EXPECT_EQ(check->mismatches, 0);
  EXPECT_EQ(check->core_mismatches, 0);
}

// The leaf's choice decides the aggregation switch's: of four paths between two leaves two have
// ports. Both up-links of a leaf still carry one flow each, and two flows share each core link.
TEST_F(ClosTest, UsesThePathsThatHavePortsWhereSwitchesHashAlike) {
  StartPods(lab::HashSeeds::kEqual);
  if (!daemons_) return;
  const auto permutation = MakePermutation(lab_->layout());
  ASSERT_TRUE(permutation.has_value());
  const auto run = RunMeasured(*lab_, *permutation, kSeed, &*daemons_);
  ASSERT_TRUE(run.has_value()) << run.error().message;
  EXPECT_TRUE(run->completed);
  EXPECT_EQ(run->steered_flows, 8);
  EXPECT_EQ(run->mismatches, 0);
  EXPECT_EQ(run->max_leaf_link_flows, 1);
  EXPECT_EQ(run->max_core_link_flows, 2);
}

TEST_F(ClosTest, TreesCrossBothTiersAlsoWithoutACore) {
  StartPods(lab::HashSeeds::kDistinct);
  if (!daemons_) return;
  ASSERT_TRUE(StartTreeJob(*daemons_, *lab_, "train", kTreeBytes, /*offload=*/false).has_value());
  const auto run_and_compare = [&](bool with_core) {
    const auto plan = ReadPlan(*daemons_, "train");
    ASSERT_TRUE(plan.has_value()) << plan.error().message;
    EXPECT_TRUE(std::ranges::any_of(*plan, [](const PlannedEdge& edge) {
      return edge.via.find(",core") != std::string::npos;
    }));
    EXPECT_EQ(std::ranges::any_of(*plan,
                                  [](const PlannedEdge& edge) {
                                    return edge.via.find("core0") != std::string::npos;
                                  }),
              with_core);
    ExpectRunAsPlanned(*lab_, "train", *plan);
  };
  run_and_compare(/*with_core=*/true);
  const auto first = AwaitPlan(*daemons_, "train", "");
  ASSERT_TRUE(first.has_value());
  for (const int pod : {0, 1}) {
    ASSERT_TRUE(lab::FailLink(*lab_, fmt::format("agg{}--core0", 2 * pod)).has_value());
  }
  ASSERT_TRUE(daemons_->Post("/api/v1/nodes/fail?id=core0").has_value());
  ASSERT_TRUE(AwaitPlan(*daemons_, "train", *first).has_value());
  run_and_compare(/*with_core=*/false);
}

}  // namespace
}  // namespace espalier::demo
