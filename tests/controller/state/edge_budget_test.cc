#include "controller/state/flows/edge_budget.h"

#include <gtest/gtest.h>

#include <chrono>

namespace espalier::controller {
namespace {

using namespace std::chrono_literals;

constexpr TimePoint kStart{1h};

TEST(EdgeBudget, HasRoomForWhatAgentsReport) {
  EdgeBudget budget(64);
  for (int i = 0; i < 1'000; ++i) {
    EXPECT_TRUE(budget.Take(1, kStart + i * 25ms));  // 40 a second
  }
}

TEST(EdgeBudget, IsOverItUntilAWindowHasAtMostHalf) {
  EdgeBudget budget(64);
  EXPECT_TRUE(budget.Take(1, kStart));
  EXPECT_TRUE(budget.Take(64, kStart + 500ms));
  EXPECT_FALSE(budget.Take(1, kStart + 600ms));
  EXPECT_FALSE(budget.Take(0, kStart + 1s));  // there were 65
  EXPECT_FALSE(budget.Take(40, kStart + 1'900ms));
  EXPECT_FALSE(budget.Take(0, kStart + 2s));  // more than 32
  EXPECT_FALSE(budget.Take(10, kStart + 2'500ms));
  EXPECT_TRUE(budget.Take(10, kStart + 3s));
  EXPECT_FALSE(budget.is_over());
}

// An agent that was not heard for a minute has more to tell.
TEST(EdgeBudget, AllowsMoreAfterSilence) {
  EdgeBudget budget(64);
  EXPECT_TRUE(budget.Take(1, kStart));
  EXPECT_TRUE(budget.Take(600, kStart + 1min));
  EXPECT_FALSE(budget.Take(600, kStart + 1min + 2s));
}

TEST(EdgeBudget, MayBeToldThatItIsExceeded) {
  EdgeBudget budget(64);
  EXPECT_TRUE(budget.Take(1, kStart));
  budget.Exceed();
  EXPECT_TRUE(budget.is_over());
  EXPECT_FALSE(budget.Take(1, kStart + 500ms));
  EXPECT_TRUE(budget.Take(1, kStart + 1s));
}

// A clock that goes back does no harm.
TEST(EdgeBudget, SurvivesAClockThatJumps) {
  EdgeBudget budget(64);
  EXPECT_TRUE(budget.Take(1, kStart));
  EXPECT_TRUE(budget.Take(1, kStart - 1min));
  EXPECT_TRUE(budget.Take(1, kStart + 1min));
}

}  // namespace
}  // namespace espalier::controller
