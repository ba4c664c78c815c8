#include "deploy/lab/workload/phase_outcome.h"

#include <gtest/gtest.h>

namespace espalier::traffic {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;

// Two hosts, of which each sends one burst in the first phase and h0 another in the second.
Workload TwoPhases(int iterations) {
  Workload workload;
  workload.phased_jobs = {
      {.id = "A",
       .iterations = iterations,
       .phases = {{.bursts = {{"h0", "h1", 1}, {"h1", "h0", 1}}}, {.bursts = {{"h0", "h2", 1}}}}}};
  return workload;
}

BurstTime Burst(std::uint32_t flow, int iteration, int phase, std::int64_t start, std::int64_t end,
                std::vector<std::uint16_t> ports) {
  return {flow, iteration, phase, start * kSecond, end * kSecond, std::move(ports)};
}

TEST(PhaseOutcome, JoinsTheReportsOfAllHosts) {
  const std::vector<HostReport> reports = {
      {.host = "h0",
       .bursts = {Burst(0, 0, 0, 1, 4, {50, 51}), Burst(2, 0, 1, 6, 7, {60}),
                  Burst(0, 1, 0, 11, 13, {51, 52}), Burst(2, 1, 1, 14, 17, {60})}},
      {.host = "h1", .bursts = {Burst(1, 0, 0, 2, 6, {70}), Burst(1, 1, 0, 11, 12, {71})}}};
  const std::vector<PhasedOutcome> outcomes = SummarisePhases(TwoPhases(3), reports);
  ASSERT_EQ(outcomes.size(), 1U);
  EXPECT_EQ(outcomes[0].id, "A");
  ASSERT_EQ(outcomes[0].iterations.size(), 2U);  // the third has not ended
  const IterationOutcome& first = outcomes[0].iterations[0];
  EXPECT_DOUBLE_EQ(first.phases[0].seconds, 5);
  EXPECT_DOUBLE_EQ(first.phases[0].slowest_burst_seconds, 4);
  EXPECT_DOUBLE_EQ(first.phases[0].median_burst_seconds, 3.5);
  EXPECT_DOUBLE_EQ(first.phases[1].seconds, 1);
  EXPECT_EQ(first.ports_changed, 0);
  EXPECT_EQ(outcomes[0].iterations[1].ports_changed, 2);  // 50 to 52, 70 to 71

  const PhasedFigures figures = FiguresFrom(outcomes[0], 0);
  EXPECT_DOUBLE_EQ(figures.slowest_burst_seconds, 3);  // medians: 3 and 2
  EXPECT_DOUBLE_EQ(figures.communication_seconds, (6 + 5) / 2.0);
  EXPECT_DOUBLE_EQ(figures.ports_changed_per_iteration, 1);
  EXPECT_DOUBLE_EQ(FiguresFrom(outcomes[0], 1).communication_seconds, 5);
}

TEST(PhaseOutcome, LeavesOutAnIterationWithoutAllItsBursts) {
  const std::vector<HostReport> reports = {
      {.host = "h0", .bursts = {Burst(0, 0, 0, 1, 2, {50}), Burst(2, 0, 1, 3, 4, {60})}}};
  EXPECT_TRUE(SummarisePhases(TwoPhases(1), reports)[0].iterations.empty());
}

}  // namespace
}  // namespace espalier::traffic
