#include "controller/prediction/prediction_errors.h"

#include <gtest/gtest.h>

#include "tests/controller/prediction/phase_schedule.h"

namespace espalier::controller {
namespace {

using namespace std::chrono_literals;

TEST(PredictionErrors, ArePartsOfThePeriod) {
  PredictionErrors errors;
  EXPECT_EQ(errors.AtMost(0.9), 0);
  errors.Add(10ms, 0ms);  // no period is known
  EXPECT_EQ(errors.count(), 0U);
  for (int i = 1; i <= 10; ++i) errors.Add(i % 2 == 0 ? i * 10ms : -i * 10ms, 1s);
  EXPECT_EQ(errors.count(), 10U);
  EXPECT_DOUBLE_EQ(errors.AtMost(0.5), 0.06);
  EXPECT_DOUBLE_EQ(errors.AtMost(0.9), 0.1);
  EXPECT_EQ(errors.last(), 100ms);
}

TEST(PredictionErrors, OnlyTheLatestCount) {
  PredictionErrors errors;
  for (std::size_t i = 0; i < PredictionErrors::kKept; ++i) errors.Add(500ms, 1s);
  for (std::size_t i = 0; i < PredictionErrors::kKept; ++i) errors.Add(1ms, 1s);
  EXPECT_DOUBLE_EQ(errors.AtMost(1), 0.001);
}

// They follow the jitter of a job, which nobody can predict, and show when a prediction is wrong.
TEST(PredictionErrors, FollowWhatAJobDoes) {
  double steady = 0;
  for (const double jitter : {0.0, 0.02, 0.1}) {
    CycleLearner learner;
    EdgePlayer player(
        {.phases = {{Flows(0, 8), 0ms, 300ms}, {Flows(100, 8), 500ms, 200ms}}, .jitter = jitter},
        1);
    PredictionTally tally(learner, 0ms);
    for (int i = 0; i < 40; ++i) tally.Play(player.NextIteration());
    const double starts = learner.errors().starts.AtMost(0.5);
    const double ends = learner.errors().ends.AtMost(0.5);
    EXPECT_GE(learner.errors().starts.count(), 70U);
    EXPECT_GE(learner.errors().ends.count(), 70U);
    EXPECT_LE(starts, 0.01 + jitter);
    EXPECT_LE(ends, 0.01 + jitter / 2);
    EXPECT_GE(starts, steady);
    steady = starts;
  }
  EXPECT_GT(steady, 0.02);
  // The second phase now comes at another time, and lasts longer.
  CycleLearner learner;
  EdgePlayer before({.phases = {{Flows(0, 8), 0ms, 200ms}}, .period = 1s}, 1);
  PredictionTally tally(learner, 0ms);
  for (int i = 0; i < 10; ++i) tally.Play(before.NextIteration());
  EXPECT_LT(learner.errors().starts.AtMost(1), 0.01);
  const Duration moved = before.now() - TimePoint(1h) + 400ms;
  EdgePlayer after({.phases = {{Flows(0, 8), 0ms, 500ms}}, .period = 1s}, 1);
  for (int i = 0; i < 2; ++i) {
    auto edges = after.NextIteration();
    for (auto& edge : edges) edge.time += moved;
    tally.Play(edges);
  }
  EXPECT_NEAR(learner.errors().starts.AtMost(1), 0.4, 0.02);
  EXPECT_NEAR(learner.errors().ends.AtMost(1), 0.3, 0.02);
}

}  // namespace
}  // namespace espalier::controller
