#include "controller/offline/evaluation/phase_gain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace espalier::offline {
namespace {

using testing::HasSubstr;

SchemeRun MakeRun(Algorithm algorithm, const std::vector<double>& seconds, std::int64_t overlap) {
  SchemeRun run{.scheme = {algorithm}};
  run.overlap.load.numerator = overlap;
  for (const double s : seconds) run.outcome.jobs.push_back({.allreduce_seconds = s});
  return run;
}

std::string TextOf(const std::vector<double>& connections, std::int64_t overlap, int phases) {
  const std::vector<Job> jobs = {{.id = "A", .phases = std::vector<Phase>(phases)},
                                 {.id = "B", .phases = std::vector<Phase>(1)}};
  const std::vector<SchemeRun> runs = {MakeRun(Algorithm::kConnections, connections, overlap),
                                       MakeRun(Algorithm::kPhases, {2, 2}, 1)};
  return ComparePhases(runs, jobs)->text;
}

TEST(ComparePhases, TellsTheFactorOfEachJob) {
  EXPECT_EQ(TextOf({3, 2}, 2, 2),
            "Phases against connections: communication is A 1.50, B 1.00 times as fast.");
}

TEST(ComparePhases, TellsWhyPhasesGainNothing) {
  EXPECT_THAT(TextOf({2, 2.01}, 2, 1), HasSubstr("gain nothing"));
  EXPECT_THAT(TextOf({2, 2}, 2, 1), HasSubstr("every job has one phase"));
  EXPECT_THAT(TextOf({2, 2}, 1, 2), HasSubstr("no link carries more than 1 flows"));
  EXPECT_THAT(TextOf({2, 2}, 3, 2), HasSubstr("3 flows instead of 1"));
}

TEST(ComparePhases, NeedsBothRuns) {
  const std::vector<Job> jobs = {{.id = "A"}};
  const std::vector<SchemeRun> runs = {MakeRun(Algorithm::kPhases, {2}, 1)};
  EXPECT_FALSE(ComparePhases(runs, jobs).has_value());
}

}  // namespace
}  // namespace espalier::offline
