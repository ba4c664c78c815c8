#include "controller/prediction/start_times.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/seeds.h"

namespace espalier::controller {
namespace {

using namespace std::chrono_literals;

// Word of starts that is late by up to a fifth of the period makes gaps of all lengths, of which
// some always seem to repeat.
TEST(StartTimes, LateWordSeldomLooksLikeSeveralStartsPerIteration) {
  int longer = 0;
  int all = 0;
  for (const std::uint64_t seed : SeedsToTry(1, 200)) {
    std::mt19937 random(static_cast<std::uint32_t>(seed));
    StartTimes times;
    for (int i = 0; i < 80; ++i) {
      times.Add(TimePoint(1h) + i * 300ms + std::chrono::microseconds(random() % 60'000));
      times.Learn();
      longer += times.lag() > 1 ? 1 : 0;
      ++all;
    }
  }
  EXPECT_LE(longer, all / 20);
}

TEST(StartTimes, FindsSeveralStartsPerIterationThoughOneIterationIsLong) {
  StartTimes times;
  TimePoint now{1h};
  for (int i = 0; i < 10; ++i) {
    for (const Duration gap : {60ms, 80ms, 160ms}) {
      times.Add(now);
      now += gap;
    }
    if (i == 5) now += 2s;
  }
  times.Learn();
  EXPECT_EQ(times.lag(), 3U);
  EXPECT_EQ(times.gap(), 160ms);
}

TEST(StartTimes, ThoseOfMembersThatStartLaterFollowByAsMuch) {
  StartTimes times;
  for (int i = 0; i < 6; ++i) times.Add(TimePoint(1h) + i * 300ms);
  const StartTimes later = times.BeforeLastLaterBy(70ms);
  EXPECT_EQ(later.size(), 5U);
  EXPECT_EQ(later.last(), TimePoint(1h) + 4 * 300ms + 70ms);
  EXPECT_EQ(later.gap(), 300ms);
}

}  // namespace
}  // namespace espalier::controller
