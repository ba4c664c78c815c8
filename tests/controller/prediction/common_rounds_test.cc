#include "controller/prediction/common_rounds.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/controller/prediction/round_starts.h"
#include "tests/seeds.h"

namespace espalier::controller {
namespace {

Rounds Compared(const std::vector<TimePoint>& a, const std::vector<TimePoint>& b) {
  const Rounds rounds = CompareRounds(a, b);
  EXPECT_EQ(CompareRounds(b, a), rounds);  // in either order
  return rounds;
}

TEST(CommonRounds, PhasesOfOneJobAreCommon) {
  RoundStarts job({.period = 1, .jitter = 0.1, .late = 0.02});
  EXPECT_EQ(Compared(job.Of({0}, 50), job.Of({0.05}, 50)), Rounds::kCommon);
  EXPECT_EQ(Compared(job.Of({0}, 50), job.Of({0.5}, 50)), Rounds::kCommon);
  // Several times in a round, and once.
  EXPECT_EQ(Compared(job.Of({0, 0.2, 0.4}, 50), job.Of({0.6}, 50)), Rounds::kCommon);
  EXPECT_EQ(Compared(job.Of({0, 0.5}, 50), job.Of({0.2}, 50)), Rounds::kCommon);
}

TEST(CommonRounds, JobsOfDifferentPeriodsAreApart) {
  for (const double period : {1.02, 1.07, 1.37, 1.5, 2.7, 5.3}) {
    SCOPED_TRACE(period);
    RoundStarts one({.period = 1});
    RoundStarts other({.period = period, .begin = 0.3});
    EXPECT_EQ(Compared(one.Of({0}, 200), other.Of({0}, 200)), Rounds::kApart);
    RoundStarts uneven({.period = 1, .jitter = 0.05, .late = 0.02});
    RoundStarts other_uneven({.period = period, .jitter = 0.05, .begin = 0.3, .seed = 2});
    if (period < 1.05) continue;  // no clear evidence either way
    EXPECT_NE(Compared(uneven.Of({0}, 200), other_uneven.Of({0}, 200)), Rounds::kCommon);
  }
}

TEST(CommonRounds, RoundsThatGrowLongerStayCommon) {
  RoundStarts job({.period = 0.5, .jitter = 0.05, .drift = 0.01});
  EXPECT_EQ(Compared(job.Of({0}, 150), job.Of({0.2}, 150)), Rounds::kCommon);
  RoundStarts other({.period = 0.7, .jitter = 0.05, .seed = 3});
  EXPECT_EQ(Compared(job.Of({0}, 150), other.Of({0}, 150)), Rounds::kApart);
}

TEST(CommonRounds, OneChangeOfOrderIsNoEvidence) {
  RoundStarts job({.period = 1});
  const auto one = job.Of({0}, 128);
  for (int changed = 0; changed < 128; ++changed) {
    auto other = job.Of({0.1}, 128);
    for (std::size_t i = static_cast<std::size_t>(changed); i < other.size(); ++i) {
      other[i] += std::chrono::milliseconds(500);
    }
    EXPECT_NE(Compared(one, other), Rounds::kApart) << changed;
  }
}

TEST(CommonRounds, ManyStartsInEachRoundAreNotApart) {
  // Activations and gradients of a pipeline, whose starts fill the round and come unevenly.
  RoundStarts job({.period = 1, .jitter = 0.02, .late = 0.1});
  const std::vector<double> forward{0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7};
  const std::vector<double> back{0.25, 0.35, 0.45, 0.55, 0.65, 0.75, 0.8, 0.85};
  EXPECT_NE(Compared(job.Of(forward, 60), job.Of(back, 60)), Rounds::kApart);
  EXPECT_NE(Compared(job.Of(forward, 60), job.Of({0.4}, 60)), Rounds::kApart);
}

// Whatever one job looks like, its flows are hardly ever found to be apart.
TEST(CommonRounds, RandomFlowsOfOneJobAreNotApart) {
  const std::uint64_t seed = SeedsToTry(1, 1).front();
  std::mt19937 random(static_cast<std::uint32_t>(seed));
  std::uniform_real_distribution<> share(0, 1);
  int apart = 0;
  for (int trial = 0; trial < 1'000; ++trial) {
    RoundStarts job({.period = 0.1 + share(random),
                     .jitter = 0.3 * share(random),
                     .late = 0.02 * share(random),
                     .seed = static_cast<std::uint32_t>(random())});
    const double end = 20 + 80 * share(random);
    const auto one = job.Of({0.5 * share(random)}, end);
    const auto other = job.Of({0.5 * share(random)}, end);
    apart += CompareRounds(one, other) == Rounds::kApart ? 1 : 0;
  }
  EXPECT_EQ(apart, 0) << "seed " << seed;
}

TEST(CommonRounds, FewStartsTellNothing) {
  RoundStarts job({.period = 1});
  EXPECT_EQ(Compared(job.Of({0}, 20), job.Of({0.2}, 20)), Rounds::kUnknown);
  EXPECT_EQ(Compared({}, job.Of({0.2}, 100)), Rounds::kUnknown);
  EXPECT_EQ(Compared(job.Of({0}, 1), job.Of({0.2}, 100)), Rounds::kUnknown);
  RoundStarts later({.period = 0.7, .begin = 200});
  EXPECT_EQ(Compared(job.Of({0}, 100), later.Of({0}, 300)), Rounds::kUnknown);
}

TEST(RegularGap, IsTheTimeBetweenStartsThatRepeat) {
  RoundStarts job({.period = 1, .jitter = 0.1});
  const auto gap = RegularGap(job.Of({0}, 60));
  ASSERT_TRUE(gap);
  EXPECT_NEAR(SecondsOf(*gap), 1, 0.1);
  EXPECT_TRUE(RegularGap(job.Of({0, 0.1, 0.5}, 60)));
  EXPECT_FALSE(RegularGap(job.Of({0}, 20)));
  std::mt19937 random(1);
  std::exponential_distribution<> wait(1);
  std::vector<TimePoint> starts{TimePoint{}};
  for (int i = 0; i < 100; ++i) {
    starts.push_back(starts.back() + std::chrono::duration_cast<Duration>(
                                         std::chrono::duration<double>(wait(random))));
  }
  EXPECT_FALSE(RegularGap(starts));
}

}  // namespace
}  // namespace espalier::controller
