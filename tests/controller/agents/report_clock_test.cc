#include "controller/agents/report_clock.h"

#include <gtest/gtest.h>

#include <random>

namespace espalier::controller {
namespace {

using namespace std::chrono_literals;

constexpr TimePoint kBegin{1h};

// A clock that showed this when the controller's showed kBegin.
std::uint64_t SentAt(Duration sent, Duration origin = 500h) {
  return static_cast<std::uint64_t>((origin + sent) / 1us);
}

TEST(ReportClock, AReportIsLateByWhatItWaitedLongerThanTheFastest) {
  ReportClock clock;
  EXPECT_EQ(clock.LatenessOf(SentAt(0ms), kBegin + 30ms), 0ms);  // nothing to compare with
  EXPECT_EQ(clock.LatenessOf(SentAt(100ms), kBegin + 100ms + 1ms), 0ms);
  EXPECT_EQ(clock.LatenessOf(SentAt(200ms), kBegin + 200ms + 30ms), 29ms);
  EXPECT_EQ(clock.LatenessOf(SentAt(300ms), kBegin + 300ms + 400ms), 399ms);
}

TEST(ReportClock, ReportsWithoutATimeAreNotLate) {
  ReportClock clock;
  clock.LatenessOf(SentAt(0ms), kBegin);
  EXPECT_EQ(clock.LatenessOf(0, kBegin + 1h), 0ms);
}

TEST(ReportClock, FollowsClocksThatDriftApart) {
  for (const std::int64_t ppm : {-100, 100}) {
    ReportClock clock;
    Duration most{};
    for (Duration sent{}; sent < 10min; sent += 10ms) {
      const Duration shown = sent + sent * ppm / 1'000'000;
      most = std::max(most, clock.LatenessOf(SentAt(shown), kBegin + sent + 1ms));
    }
    EXPECT_LE(most, 4ms);
  }
}

TEST(ReportClock, NoClaimMovesAReportByMoreThanTheBound) {
  std::mt19937_64 random(1);
  ReportClock clock;
  for (int i = 0; i < 10'000; ++i) {
    const std::uint64_t claimed = random() % 3'155'760'000'000'000;
    const Duration late = clock.LatenessOf(claimed, kBegin + i * 1ms);
    EXPECT_GE(late, 0ms);
    EXPECT_LE(late, ReportClock::kMostLate);
  }
  clock.Reset();
  EXPECT_EQ(clock.LatenessOf(SentAt(0ms), kBegin + 20s), 0ms);
}

}  // namespace
}  // namespace espalier::controller
