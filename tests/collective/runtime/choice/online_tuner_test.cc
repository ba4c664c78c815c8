#include "collective/runtime/choice/online_tuner.h"

#include <gtest/gtest.h>

#include <vector>

namespace espalier::runtime {
namespace {

using Candidate = OnlineTuner::Candidate;

// How often the second candidate ran in `calls` calls, if the candidates take these times.
int CountSeconds(OnlineTuner& choice, std::size_t call_class, int calls, double first,
                 double second) {
  int seconds = 0;
  for (int i = 0; i < calls; ++i) {
    const Candidate candidate = choice.Next(call_class);
    seconds += candidate == Candidate::kSecond ? 1 : 0;
    if (choice.IsTimed()) choice.Record(candidate == Candidate::kFirst ? first : second);
  }
  return seconds;
}

TEST(OnlineTuner, TriesBothAndTakesTheFaster) {
  OnlineTuner choice(2);
  EXPECT_EQ(CountSeconds(choice, 0, 100, 2.0, 1.0), 97);
  EXPECT_EQ(CountSeconds(choice, 1, 100, 1.0, 2.0), 2);
}

TEST(OnlineTuner, IgnoresTheFirstCall) {
  OnlineTuner choice(1);
  EXPECT_EQ(choice.Next(0), Candidate::kFirst);
  choice.Record(100);
  EXPECT_EQ(CountSeconds(choice, 0, 99, 1.0, 2.0), 2);
}

// One disturbed measurement of a candidate must not decide.
TEST(OnlineTuner, TriesAgainBeforeItChooses) {
  OnlineTuner choice(1);
  const double times[] = {1, 3, 2.5, 1, 2.5};
  for (const double seconds : times) {
    choice.Next(0);
    choice.Record(seconds);
  }
  EXPECT_EQ(CountSeconds(choice, 0, 50, 2.5, 1.0), 50);
}

TEST(OnlineTuner, TimesTrialsAndEveryNthCall) {
  constexpr std::uint32_t kEvery = 8;
  OnlineTuner choice(1, kEvery);
  int timed = 0;
  for (int i = 0; i < 101; ++i) {
    const Candidate candidate = choice.Next(0);
    timed += choice.IsTimed() ? 1 : 0;
    EXPECT_TRUE(i >= 5 || choice.IsTimed()) << i;
    if (choice.IsTimed()) choice.Record(candidate == Candidate::kFirst ? 1.0 : 2.0);
  }
  EXPECT_EQ(timed, 5 + 12);
  // It changes over nevertheless.
  EXPECT_GE(CountSeconds(choice, 0, 600, 8.0, 2.0), 500);
}

TEST(OnlineTuner, IsNotMisledByOneDisturbedCall) {
  OnlineTuner choice(1);
  CountSeconds(choice, 0, 10, 1.0, 2.0);
  EXPECT_EQ(choice.Next(0), Candidate::kFirst);
  choice.Record(50);
  EXPECT_EQ(CountSeconds(choice, 0, 50, 1.0, 2.0), 0);
}

TEST(OnlineTuner, ChangesOverSoonWhenTheFasterOneGetsSlow) {
  OnlineTuner choice(1);
  CountSeconds(choice, 0, 10, 1.0, 2.0);
  EXPECT_GE(CountSeconds(choice, 0, 60, 8.0, 2.0), 50);
}

TEST(OnlineTuner, FindsThatTheOtherHasBecomeFaster) {
  OnlineTuner choice(1);
  CountSeconds(choice, 0, 10, 3.0, 2.0);
  // The slower candidate is retried, but rarely.
  EXPECT_GE(CountSeconds(choice, 0, 1000, 3.0, 2.0), 980);
  const int seconds = CountSeconds(choice, 0, 1000, 1.0, 2.0);
  EXPECT_GT(seconds, 0);
  EXPECT_LT(seconds, 200);
}

}  // namespace
}  // namespace espalier::runtime
