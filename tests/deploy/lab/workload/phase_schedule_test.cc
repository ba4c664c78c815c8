#include "deploy/lab/workload/phase_schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace espalier::traffic {
namespace {

using std::chrono::milliseconds;

PhasedJob Job(int jitter_percent) {
  return {.id = "A",
          .period_seconds = 1,
          .jitter_percent = jitter_percent,
          .phases = {{.compute_seconds = 0.1}, {.compute_seconds = 0.2}}};
}

TEST(PhaseSchedule, IsExactWithoutJitter) {
  const PhaseSchedule schedule(Job(0), 0, 1);
  for (int iteration = 0; iteration < 5; ++iteration) {
    EXPECT_EQ(schedule.ComputeTime(iteration, 0), milliseconds(100));
    EXPECT_EQ(schedule.ComputeTime(iteration, 1), milliseconds(200));
    EXPECT_EQ(schedule.Period(iteration), milliseconds(1000));
  }
}

TEST(PhaseSchedule, VariesWithinTheJitterInBothDirections) {
  const PhaseSchedule schedule(Job(5), 0, 1);
  Duration least = milliseconds(1000);
  Duration most = milliseconds(1000);
  std::set<Duration> drawn;
  for (int iteration = 0; iteration < 1000; ++iteration) {
    const Duration period = schedule.Period(iteration);
    least = std::min(least, period);
    most = std::max(most, period);
    drawn.insert(period);
    EXPECT_GE(schedule.ComputeTime(iteration, 0), milliseconds(95));
    EXPECT_LE(schedule.ComputeTime(iteration, 0), milliseconds(105));
  }
  EXPECT_GE(least, milliseconds(950));
  EXPECT_LT(least, milliseconds(952));
  EXPECT_LE(most, milliseconds(1050));
  EXPECT_GT(most, milliseconds(1048));
  EXPECT_GT(drawn.size(), 990U);
}

TEST(PhaseSchedule, DependsOnSeedAndJobAlone) {
  const PhaseSchedule schedule(Job(5), 1, 7);
  const PhaseSchedule same(Job(5), 1, 7);
  const PhaseSchedule other_job(Job(5), 2, 7);
  const PhaseSchedule other_seed(Job(5), 1, 8);
  EXPECT_EQ(schedule.Period(3), same.Period(3));
  EXPECT_NE(schedule.Period(3), other_job.Period(3));
  EXPECT_NE(schedule.Period(3), other_seed.Period(3));
}

}  // namespace
}  // namespace espalier::traffic
