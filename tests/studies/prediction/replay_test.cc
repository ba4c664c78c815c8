#include "tests/studies/prediction/replay.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>

#include "common/fabric/builders.h"

namespace espalier::offline {
namespace {

// 8 leaves with 8 hosts each; jobs of 16 hosts of their own in rings of 4.
class ReplayTest : public testing::Test {
 protected:
  static fabric::Topology Fabric(int spines) {
    return *fabric::Topology::Build(
        *fabric::BuildLeafSpine({.spines = spines, .leaves = 8, .hosts_per_leaf = 8}));
  }
  std::vector<Job> Jobs(int count) const {
    std::vector<int> hosts(64);
    for (int i = 0; i < 64; ++i) hosts[static_cast<std::size_t>(i)] = i;
    std::shuffle(hosts.begin(), hosts.end(), std::mt19937(5));
    const auto node = [&](std::size_t i) {
      return *fabric_.FindNode("h" + std::to_string(hosts[i]));
    };
    std::vector<Job> jobs;
    for (std::size_t j = 0; j < static_cast<std::size_t>(count); ++j) {
      Job& job = jobs.emplace_back();
      job.id = "job" + std::to_string(j);
      job.phases = {{.compute_ns = 600'000'000}};
      for (std::size_t r = 0; r < 4; ++r) {
        Exchange& ring = job.phases[0].exchanges.emplace_back();
        ring.round_bytes = 200'000'000;
        ring.rounds = 6;
        for (std::size_t i = 0; i < 4; ++i) {
          ring.flows.push_back({node(16 * j + 4 * r + i), node(16 * j + 4 * r + (i + 1) % 4)});
        }
      }
    }
    return jobs;
  }
  static ReplayOutcome Run(const fabric::Topology& fabric, std::vector<Job> jobs,
                           ReplayOptions options) {
    options.iterations = 10;
    options.later_collective_ns = 50'000'000;
    auto outcome = Replay(fabric, std::move(jobs), options);
    EXPECT_TRUE(outcome.has_value());
    return outcome.value_or(ReplayOutcome{});
  }

  fabric::Topology fabric_ = Fabric(8);
};

double Share(std::int64_t part, std::int64_t of) {
  return static_cast<double>(part) / static_cast<double>(of);
}

TEST_F(ReplayTest, ARegularJobIsPredictedCompletelyAndInTime) {
  const ReplayOutcome outcome = Run(fabric_, Jobs(1), {});
  ASSERT_GT(outcome.starts, 50);
  EXPECT_EQ(outcome.planned, outcome.starts);
  EXPECT_EQ(outcome.checked_planned, outcome.checks);
  EXPECT_EQ(outcome.as_good, outcome.checks);
  ASSERT_EQ(outcome.start_error_seconds.size(), 7U);
  for (const double error : outcome.start_error_seconds) EXPECT_LT(error, 0.002);
  ASSERT_FALSE(outcome.end_error_seconds.empty());
  for (const double error : outcome.end_error_seconds) EXPECT_LT(error, 0.002);
  // Six rounds at 100 Gbit/s and the second collective's offset, with some loss to ECMP at first.
  EXPECT_NEAR(outcome.allreduce_seconds, 0.096 + 0.05, 0.005);
}

TEST_F(ReplayTest, ConcurrentJobsGetPathsAsGoodAsFromScratch) {
  for (const double jitter : {0.05, 0.2}) {
    ReplayOptions options{.disturbance = {.jitter = jitter}};
    const ReplayOutcome with = Run(fabric_, Jobs(4), options);
    options.plan_ahead = false;
    const ReplayOutcome without = Run(fabric_, Jobs(4), options);
    EXPECT_EQ(with.starts, without.starts);
    EXPECT_GE(Share(with.as_good, with.checks), jitter < 0.1 ? 0.99 : 0.9);
    EXPECT_LE(with.allreduce_seconds, 1.01 * without.allreduce_seconds);
    EXPECT_EQ(without.planned, 0);
    EXPECT_TRUE(without.start_error_seconds.empty());
  }
}

TEST_F(ReplayTest, AFabricWithAQuarterOfTheSpinesIsSlower) {
  const double full = Run(fabric_, Jobs(4), {}).allreduce_seconds;
  EXPECT_GT(Run(Fabric(2), Jobs(4), {}).allreduce_seconds, full * 1.05);
}

TEST_F(ReplayTest, APhaseChangeCostsThePredictionsOfAnIteration) {
  const ReplayOutcome outcome = Run(fabric_, Jobs(1), {.disturbance = {.changes_phase = true}});
  EXPECT_LT(outcome.planned, outcome.starts);
  EXPECT_GE(Share(outcome.planned, outcome.starts), 0.8);
}

TEST_F(ReplayTest, DependsOnTheSeedAlone) {
  const ReplayOptions options{.disturbance = {.jitter = 0.2, .stragglers = 0.1}, .seed = 3};
  const ReplayOutcome outcome = Run(fabric_, Jobs(2), options);
  const ReplayOutcome again = Run(fabric_, Jobs(2), options);
  EXPECT_EQ(outcome.planned, again.planned);
  EXPECT_EQ(outcome.start_error_seconds, again.start_error_seconds);
  EXPECT_EQ(outcome.end_error_seconds, again.end_error_seconds);
  ReplayOptions other = options;
  other.seed = 4;
  EXPECT_NE(Run(fabric_, Jobs(2), other).start_error_seconds, outcome.start_error_seconds);
}

TEST_F(ReplayTest, RefusesTooFewIterationsAndEndsWhenCancelled) {
  const auto few = Replay(fabric_, Jobs(1), {.iterations = 3});
  ASSERT_FALSE(few.has_value());
  EXPECT_EQ(few.error().code, ErrorCode::kInvalidArgument);
  const auto cancelled = Replay(fabric_, Jobs(1), {.is_cancelled = [] { return true; }});
  ASSERT_FALSE(cancelled.has_value());
  EXPECT_EQ(cancelled.error().code, ErrorCode::kResourceExhausted);
  EXPECT_FALSE(Replay(fabric_, {}, {}).has_value());
}

}  // namespace
}  // namespace espalier::offline
