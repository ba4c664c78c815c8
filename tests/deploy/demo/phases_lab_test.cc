// Jobs with phases, on connections that live as long as the run, in a lab with real daemons.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "deploy/demo/phases_job.h"
#include "deploy/lab/run_traffic.h"
#include "tests/deploy/demo/live_lab.h"

namespace espalier::demo {
namespace {

// A 4x4x4 lab with two jobs of 24 flows each. Times are printed, not asserted.
class PhasesLabTest : public LiveLabTest {
 protected:
  static constexpr int kSeed = 1;
  static constexpr int kFlows = 48;

  void SetUp() override { StartLab({.link_rate = BitsPerSecond{50'000'000}, .seed = kSeed}); }

  Experiment Make(int queue_pairs, int iterations) {
    auto phases =
        MakePhases(lab_->layout(), {.queue_pairs = queue_pairs, .iterations = iterations});
    EXPECT_TRUE(phases.has_value()) << phases.error().message;
    return std::move(*phases);
  }
};

void Print(const MeasuredRun& run, const Experiment& experiment) {
  fmt::print("{:<9} slowest burst {:.3f} s (ideal {:.3f} s), worst link {:g} flows\n",
             run.figures.scheme, run.figures.slowest_flow_seconds,
             experiment.ideal.slowest_flow_seconds, run.figures.max_link_flows);
}

TEST_F(PhasesLabTest, KeepTheirConnectionsAndEndEveryIteration) {
  constexpr int kIterations = 4;
  Experiment experiment = Make(/*queue_pairs=*/2, kIterations);
  const auto result = lab::RunTraffic(*lab_, experiment.workload,
                                      {.seed = kSeed, .time_limit = std::chrono::seconds(180)});
  ASSERT_TRUE(result.has_value()) << result.error().message;
  EXPECT_TRUE(result->completed);
  ASSERT_EQ(result->flows.size(), std::size_t{kFlows});
  for (const lab::FlowOutcome& flow : result->flows) {
    EXPECT_TRUE(flow.IsWhole()) << flow.plan.id;
    EXPECT_EQ(flow.sent.ports.size(), 2U) << flow.plan.id;  // one for each queue pair
  }
  for (const traffic::PhasedOutcome& job : result->phased_jobs) {
    ASSERT_EQ(job.iterations.size(), std::size_t{kIterations}) << job.id;
    for (const traffic::IterationOutcome& iteration : job.iterations) {
      EXPECT_EQ(iteration.phases.size(), 4U);
      EXPECT_EQ(iteration.ports_changed, 0);
    }
  }
}

TEST_F(PhasesLabTest, AreSteeredAsTheSpinesCount) {
  const Experiment unsteered = Make(/*queue_pairs=*/1, /*iterations=*/2);
  const auto ecmp = RunMeasured(*lab_, unsteered, kSeed, nullptr);
  ASSERT_TRUE(ecmp.has_value()) << ecmp.error().message;
  Print(*ecmp, unsteered);
  EXPECT_TRUE(ecmp->completed);
  EXPECT_GE(ecmp->figures.max_link_flows, 2);  // these ports collide in this fabric

  // The figures are those of the second half. On a busy machine, phases are learned late.
  const Experiment experiment = Make(/*queue_pairs=*/1, /*iterations=*/12);
  StartDaemons(ControllerFields(Scheme::kEspalier));
  const auto steered = RunMeasured(*lab_, experiment, kSeed, &*daemons_);
  ASSERT_TRUE(steered.has_value()) << steered.error().message;
  Print(*steered, experiment);
  EXPECT_TRUE(steered->completed);
  EXPECT_GE(steered->steered_flows, kFlows);
  EXPECT_EQ(steered->mismatches, 0);
  EXPECT_EQ(steered->figures.max_link_flows, 1);  // as each overlap of phases allows
}

}  // namespace
}  // namespace espalier::demo
