// Tests when intents end, also when the clock jumps.
#include "controller/operations/intent_ends.h"

#include <gtest/gtest.h>

namespace espalier::controller {
namespace {

using namespace std::chrono_literals;

constexpr WallTime kWall{std::chrono::hours(1'000)};
constexpr TimePoint kLoop{std::chrono::hours(5)};

Intent Until(WallTime until) { return {.reason = "", .actor = "", .since = kWall, .until = until}; }

TEST(IntentEnds, NeverEndsAnIntentWithoutAnEnd) {
  IntentEnds ends;
  const Intent forever{.reason = "", .actor = "", .since = kWall, .until = std::nullopt};
  EXPECT_FALSE(ends.HasEnded(forever, kLoop + 1'000h, kWall + 1'000h));
}

TEST(IntentEnds, EndsAtItsTimeAndNotBefore) {
  IntentEnds ends;
  EXPECT_FALSE(ends.HasEnded(Until(kWall + 10s), kLoop, kWall));
  EXPECT_FALSE(ends.HasEnded(Until(kWall + 10s), kLoop + 10s - 1ns, kWall + 10s - 1us));
  EXPECT_TRUE(ends.HasEnded(Until(kWall + 10s), kLoop + 10s, kWall + 10s));
}

TEST(IntentEnds, MeasuresOnceSoThatJumpsOfTheClockEndNothing) {
  IntentEnds ends;
  const Intent intent = Until(kWall + 10s);
  EXPECT_FALSE(ends.HasEnded(intent, kLoop, kWall));
  EXPECT_FALSE(ends.HasEnded(intent, kLoop + 9s, kWall + 1'000h));  // forward
  EXPECT_TRUE(ends.HasEnded(intent, kLoop + 10s, kWall - 900h));    // and back
}

TEST(IntentEnds, ANewEndIsMeasuredAgain) {
  IntentEnds ends;
  EXPECT_FALSE(ends.HasEnded(Until(kWall + 10s), kLoop, kWall));
  EXPECT_FALSE(ends.HasEnded(Until(kWall + 30s), kLoop + 5s, kWall + 5s));
  EXPECT_FALSE(ends.HasEnded(Until(kWall + 30s), kLoop + 29s, kWall + 29s));
  EXPECT_TRUE(ends.HasEnded(Until(kWall + 30s), kLoop + 30s, kWall + 30s));
}

TEST(IntentEnds, AcceptsTheMostDistantEnd) {
  IntentEnds ends;
  EXPECT_FALSE(ends.HasEnded(Until(WallTime::max()), kLoop, kWall));
}

// When there are many, it forgets ends in the past but not those in the future.
TEST(IntentEnds, KeepsFutureEndsWhenManyHaveEnded) {
  IntentEnds ends;
  const Intent later = Until(kWall + 10s);
  EXPECT_FALSE(ends.HasEnded(later, kLoop, kWall));
  for (int i = 0; i < 10'000; ++i) {
    EXPECT_TRUE(ends.HasEnded(Until(kWall - std::chrono::microseconds(i)), kLoop, kWall));
  }
  EXPECT_FALSE(ends.HasEnded(later, kLoop + 9s, kWall + 1'000h));
  EXPECT_TRUE(ends.HasEnded(later, kLoop + 10s, kWall));
}

}  // namespace
}  // namespace espalier::controller
