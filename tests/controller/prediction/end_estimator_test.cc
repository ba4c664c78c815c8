#include "controller/prediction/end_estimator.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>

namespace espalier::controller {
namespace {

using namespace std::chrono_literals;

constexpr double kGigabit = 1e9;
constexpr TimePoint kStart{1h};

double SecondsFromStart(TimePoint time) {
  return std::chrono::duration<double>(time - kStart).count();
}

TEST(EndEstimator, DividesRemainingBytesByThePlannedRate) {
  EndEstimator ends;
  ends.Begin(FlowSlot(3), kStart, 8 * kGigabit);
  EXPECT_FALSE(ends.Of(FlowSlot(3)));  // no report yet
  ends.TakeReport(FlowSlot(3), kStart, 2'000'000'000, 0);
  ASSERT_TRUE(ends.Of(FlowSlot(3)));
  EXPECT_NEAR(SecondsFromStart(ends.Of(FlowSlot(3))->expected), 2, 1e-6);
}

TEST(EndEstimator, CorrectsThePlannedRateByObservation) {
  EndEstimator ends;
  ends.Begin(FlowSlot(0), kStart, 8 * kGigabit);
  std::uint64_t remaining = 10'000'000'000;
  ends.TakeReport(FlowSlot(0), kStart, remaining, 0);
  const double at_first = SecondsFromStart(ends.Of(FlowSlot(0))->expected);
  EXPECT_NEAR(at_first, 10, 1e-6);
  TimePoint now = kStart;
  for (int i = 0; i < 12; ++i) {  // half the planned rate
    now += 100ms;
    remaining -= 50'000'000;
    ends.TakeReport(FlowSlot(0), now, remaining, 0);
  }
  EXPECT_NEAR(SecondsFromStart(ends.Of(FlowSlot(0))->expected), 20, 0.1);
  EXPECT_NEAR(ends.Of(FlowSlot(0))->rate_bps, 4 * kGigabit, 0.05 * kGigabit);
  EXPECT_LE(ends.Of(FlowSlot(0))->earliest, ends.Of(FlowSlot(0))->expected);
  EXPECT_GE(ends.Of(FlowSlot(0))->latest, ends.Of(FlowSlot(0))->expected);
}

TEST(EndEstimator, TheIntervalNarrowsWhileTheRateIsSteady) {
  EndEstimator ends;
  ends.Begin(FlowSlot(0), kStart, 0);
  std::uint64_t remaining = 100'000'000'000;
  Duration width_before = 24h;
  for (int i = 0; i < 20; ++i) {
    ends.TakeReport(FlowSlot(0), kStart + i * 100ms, remaining,
                    static_cast<std::uint64_t>(kGigabit));
    remaining -= 12'500'000;
    ASSERT_TRUE(ends.Of(FlowSlot(0)));
    const Duration width = ends.Of(FlowSlot(0))->latest - ends.Of(FlowSlot(0))->earliest;
    EXPECT_LE(width, width_before + 1ms);
    width_before = width;
  }
  EXPECT_LT(width_before, 20s);  // of 800 s
}

TEST(EndEstimator, KnowsTheFlowsThatEndSoonUnderRandomReports) {
  std::mt19937 random(7);
  EndEstimator ends;
  constexpr std::uint32_t kFlows = 60;
  TimePoint now = kStart;
  for (int step = 0; step < 5'000; ++step) {
    now += std::chrono::microseconds(random() % 2'000);
    const FlowSlot flow(static_cast<std::uint32_t>(random() % kFlows));
    switch (random() % 6) {
      case 0:
        ends.Begin(flow, now, static_cast<double>(random() % 3) * kGigabit);
        break;
      case 1:
        ends.End(flow);
        break;
      case 2:
        ends.SetPlannedRate(flow, static_cast<double>(random() % 4) * kGigabit);
        break;
      default:
        ends.TakeReport(flow, now, random() % 5'000'000'000, random() % 2 * 3'000'000'000);
    }
    std::vector<FlowSlot> within;
    for (std::uint32_t i = 0; i < kFlows; ++i) {
      const FlowSlot other(i);
      const auto forecast = ends.Of(other);
      if (!forecast) continue;
      if (forecast->expected <= now + 2s) within.push_back(other);
    }
    // Not each time, so that moves in between must be noticed, too, and for a while never, so that
    // the order is given up and made again.
    if (step % 3 == 0 && step / 2'000 % 2 == 0) {
      ASSERT_EQ(ends.EndingBy(now + 2s), within) << step;
    }
  }
}

TEST(EndEstimator, WrongReportsAffectOnlyTheirFlow) {
  EndEstimator ends;
  ends.Begin(FlowSlot(0), kStart, kGigabit);
  ends.TakeReport(FlowSlot(0), kStart, 125'000'000, 0);
  ends.Begin(FlowSlot(1), kStart, kGigabit);
  ends.TakeReport(FlowSlot(1), kStart, std::numeric_limits<std::uint64_t>::max(), 1);
  EXPECT_FALSE(ends.Of(FlowSlot(1)));               // it would take centuries
  ends.TakeReport(FlowSlot(1), kStart - 1h, 1, 0);  // before the last report
  EXPECT_FALSE(ends.Of(FlowSlot(1)));
  ends.TakeReport(FlowSlot(1), kStart + 1ms, 0, std::numeric_limits<std::uint64_t>::max());
  EXPECT_FALSE(ends.Of(FlowSlot(1)));           // nothing remains
  ends.TakeReport(FlowSlot(77), kStart, 5, 5);  // never begun
  ends.End(FlowSlot(1'000'000));
  EXPECT_NEAR(SecondsFromStart(ends.Of(FlowSlot(0))->expected), 1, 1e-6);
}

// A program that is slower than the links: the plan's rate would be wrong until one is observed.
TEST(EndEstimator, TakesTheRateOfEarlierPhasesUntilOneIsObserved) {
  EndEstimator ends;
  ends.Begin(FlowSlot(0), kStart, 0);
  ends.SetUsualDuration(FlowSlot(0), 400ms, 10ms, 200'000'000);
  ends.SetPlannedRate(FlowSlot(0), 8 * kGigabit);  // twice as fast
  ends.TakeReport(FlowSlot(0), kStart, 200'000'000, 0);
  EXPECT_NEAR(SecondsFromStart(ends.Of(FlowSlot(0))->expected), 0.4, 1e-6);
  ends.TakeReport(FlowSlot(0), kStart + 100ms, 150'000'000, 0);  // as before
  EXPECT_NEAR(SecondsFromStart(ends.Of(FlowSlot(0))->expected), 0.4, 1e-6);
  // What remains is not told: nothing but the usual duration says when it ends.
  ends.Begin(FlowSlot(0), kStart, 8 * kGigabit);
  ends.SetUsualDuration(FlowSlot(0), 400ms, 10ms, 200'000'000);
  ends.TakeReport(FlowSlot(0), kStart + 100ms, 0, 0);
  EXPECT_NEAR(SecondsFromStart(ends.Of(FlowSlot(0))->expected), 0.4, 1e-6);
}

}  // namespace
}  // namespace espalier::controller
