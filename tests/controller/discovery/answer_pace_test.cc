#include "controller/discovery/answer_pace.h"

#include <gtest/gtest.h>

namespace espalier::discovery {
namespace {

TEST(AnswerPace, GrowsWhileAnswersComeAndHalvesWhenTheyFailToCome) {
  AnswerPace pace;
  EXPECT_EQ(pace.PerSecondAndSwitch(1), 50);
  pace.HandleBatch(1, 100, 100);
  EXPECT_EQ(pace.PerSecondAndSwitch(1), 75);
  pace.HandleBatch(1, 100, 90);
  EXPECT_EQ(pace.PerSecondAndSwitch(1), 75) << "neither many nor few";
  pace.HandleBatch(1, 100, 79);
  EXPECT_EQ(pace.PerSecondAndSwitch(1), 37.5);
  EXPECT_EQ(pace.PerSecondAndSwitch(0), 50) << "another TTL";
  for (int i = 0; i < 100; ++i) pace.HandleBatch(1, 100, 0);
  EXPECT_EQ(pace.PerSecondAndSwitch(1), AnswerPace::kLeast);
  for (int i = 0; i < 100; ++i) pace.HandleBatch(1, 100, 100);
  EXPECT_EQ(pace.PerSecondAndSwitch(1), AnswerPace::kMost);
}

TEST(AnswerPace, IsNotSlowedDownBySwitchesThatNeverAnswer) {
  AnswerPace pace;
  for (int i = 0; i < 20; ++i) pace.HandleBatch(1, 400, 100);
  EXPECT_EQ(pace.PerSecondAndSwitch(1), AnswerPace::kMost);
  pace.HandleBatch(1, 400, 60);
  EXPECT_EQ(pace.PerSecondAndSwitch(1), AnswerPace::kMost / 2);
}

TEST(AnswerPace, LearnsNothingFromFewProbes) {
  AnswerPace pace;
  pace.HandleBatch(1, 19, 0);
  pace.HandleBatch(1, 19, 19);
  EXPECT_EQ(pace.PerSecondAndSwitch(1), 50);
}

}  // namespace
}  // namespace espalier::discovery
