#include "common/base/users/user_budget.h"

#include <gtest/gtest.h>

namespace espalier {
namespace {

constexpr BudgetOwner kA = 1001;
constexpr BudgetOwner kB = 1002;
constexpr BudgetOwner kC = 1003;

void Take(UserBudget& budget, BudgetOwner user, int times) {
  for (int i = 0; i < times; ++i) EXPECT_TRUE(budget.Take(user)) << user << " " << i;
}

// One more for the user, as a server does it. Returns whether it got one.
bool TakeByRight(UserBudget& budget, BudgetOwner user) {
  if (const auto loser = budget.GivesWayTo(user)) budget.Give(*loser);
  return budget.Take(user);
}

TEST(UserBudget, CountsForEachUserAndInTotal) {
  UserBudget budget(4, 3);
  Take(budget, kA, 3);
  EXPECT_FALSE(budget.Take(kA));
  EXPECT_FALSE(budget.HasRoomFor(kA));
  Take(budget, kB, 1);
  EXPECT_FALSE(budget.Take(kB));
  EXPECT_TRUE(budget.HasRoomFor(kB));
  budget.Give(kC);
  EXPECT_EQ(budget.used(), 4U);
  budget.Give(kA);
  EXPECT_EQ(budget.UsedBy(kA), 2U);
  EXPECT_TRUE(budget.Take(kB));
}

TEST(UserBudget, NobodyGivesWayWhileThereIsRoomOrToTheOneWithTheMost) {
  UserBudget budget(4, 3);
  EXPECT_FALSE(budget.GivesWayTo(kA));
  Take(budget, kA, 3);
  EXPECT_FALSE(budget.GivesWayTo(kB));
  Take(budget, kB, 1);
  EXPECT_FALSE(budget.GivesWayTo(kA)) << "it has its own limit";
  EXPECT_EQ(budget.GivesWayTo(kB), kA);
  budget.Give(kA);
  Take(budget, kB, 1);
  EXPECT_FALSE(budget.GivesWayTo(kA)) << "both have two";
  EXPECT_FALSE(budget.GivesWayTo(kB));
}

TEST(UserBudget, EndsUpWithEqualPartsForThoseWhoWantMore) {
  UserBudget budget(12, 9);
  Take(budget, kA, 9);
  Take(budget, kB, 3);
  int taken = 0;
  while (TakeByRight(budget, kC)) ++taken;
  EXPECT_EQ(taken, 4);
  while (TakeByRight(budget, kB)) {
  }
  EXPECT_EQ(budget.UsedBy(kA), 4U);
  EXPECT_EQ(budget.UsedBy(kB), 4U);
  EXPECT_EQ(budget.UsedBy(kC), 4U);
  for (BudgetOwner user = 2000; user < 2009; ++user) EXPECT_TRUE(TakeByRight(budget, user)) << user;
  EXPECT_EQ(budget.used(), 12U);
}

}  // namespace
}  // namespace espalier
