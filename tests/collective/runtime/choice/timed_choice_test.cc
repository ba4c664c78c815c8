#include "collective/runtime/choice/timed_choice.h"

#include <gtest/gtest.h>

#include <vector>

namespace espalier::runtime {
namespace {

using Way = TimedChoice::Way;

// How often the second way was taken in so many calls, where the ways take so long.
int CountSeconds(TimedChoice& choice, std::size_t call_class, int calls, double first,
                 double second) {
  int seconds = 0;
  for (int i = 0; i < calls; ++i) {
    const Way way = choice.Next(call_class);
    seconds += way == Way::kSecond ? 1 : 0;
    if (choice.IsTimed()) choice.Record(way == Way::kFirst ? first : second);
  }
  return seconds;
}

TEST(TimedChoice, TriesBothAndTakesTheFaster) {
  TimedChoice choice(2);
  EXPECT_EQ(CountSeconds(choice, 0, 100, 2.0, 1.0), 97);
  EXPECT_EQ(CountSeconds(choice, 1, 100, 1.0, 2.0), 2);
}

TEST(TimedChoice, LeavesOutTheFirstTime) {
  TimedChoice choice(1);
  EXPECT_EQ(choice.Next(0), Way::kFirst);
  choice.Record(100);
  EXPECT_EQ(CountSeconds(choice, 0, 99, 1.0, 2.0), 2);
}

// The second way's first time would lose; the first way's could not win back otherwise.
TEST(TimedChoice, TriesAgainBeforeItChooses) {
  TimedChoice choice(1);
  const double times[] = {1, 3, 2.5, 1, 2.5};
  for (const double seconds : times) {
    choice.Next(0);
    choice.Record(seconds);
  }
  EXPECT_EQ(CountSeconds(choice, 0, 50, 2.5, 1.0), 50);
}

TEST(TimedChoice, TimesTrialsAndOneCallInSoMany) {
  constexpr std::uint32_t kEvery = 8;
  TimedChoice choice(1, kEvery);
  int timed = 0;
  for (int i = 0; i < 101; ++i) {
    const Way way = choice.Next(0);
    timed += choice.IsTimed() ? 1 : 0;
    EXPECT_TRUE(i >= 5 || choice.IsTimed()) << i;
    if (choice.IsTimed()) choice.Record(way == Way::kFirst ? 1.0 : 2.0);
  }
  EXPECT_EQ(timed, 5 + 12);
  // It changes over all the same.
  EXPECT_GE(CountSeconds(choice, 0, 600, 8.0, 2.0), 500);
}

TEST(TimedChoice, IsNotMisledByOneDisturbedCall) {
  TimedChoice choice(1);
  CountSeconds(choice, 0, 10, 1.0, 2.0);
  EXPECT_EQ(choice.Next(0), Way::kFirst);
  choice.Record(50);
  EXPECT_EQ(CountSeconds(choice, 0, 50, 1.0, 2.0), 0);
}

TEST(TimedChoice, ChangesOverSoonWhenTheFasterOneGetsSlow) {
  TimedChoice choice(1);
  CountSeconds(choice, 0, 10, 1.0, 2.0);
  EXPECT_GE(CountSeconds(choice, 0, 60, 8.0, 2.0), 50);
}

TEST(TimedChoice, FindsThatTheOtherHasBecomeFaster) {
  TimedChoice choice(1);
  CountSeconds(choice, 0, 10, 3.0, 2.0);
  // It is looked at again now and then, and seldom.
  EXPECT_GE(CountSeconds(choice, 0, 1000, 3.0, 2.0), 980);
  const int seconds = CountSeconds(choice, 0, 1000, 1.0, 2.0);
  EXPECT_GT(seconds, 0);
  EXPECT_LT(seconds, 200);
}

}  // namespace
}  // namespace espalier::runtime
