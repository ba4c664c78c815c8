#include "agent/flows/rank_plan_table.h"

#include <gtest/gtest.h>

#include <vector>

namespace espalier::agent {
namespace {

class RankPlanTableTest : public testing::Test {
 protected:
  RankPlanTableTest() {
    table_.OnChange([this](const wire::RankPlan& plan) { news_.push_back(plan); });
  }
  static wire::RankPlan Plan(std::uint64_t generation, const std::string& job, std::uint32_t rank,
                             std::uint64_t version) {
    wire::RankPlan plan;
    plan.epoch = 3;
    plan.generation = generation;
    plan.job = job;
    plan.rank = rank;
    plan.version = version;
    if (version != 0) plan.program = "bytes";
    return plan;
  }
  static wire::PathPush Push(std::uint64_t generation, std::uint32_t plans, bool full) {
    wire::PathPush push;
    push.epoch = 3;
    push.generation = generation;
    push.plans = plans;
    push.full = full;
    return push;
  }
  RankPlanTable table_;
  std::vector<wire::RankPlan> news_;
};

TEST_F(RankPlanTableTest, PlansComeIntoForceWithTheirPush) {
  table_.HandlePlan(Plan(1, "a", 0, 7));
  EXPECT_TRUE(table_.in_force().empty());
  EXPECT_FALSE(table_.HasAllPlans(Push(1, 2, true)));
  table_.HandlePlan(Plan(1, "a", 1, 7));
  EXPECT_TRUE(table_.HasAllPlans(Push(1, 2, true)));
  EXPECT_FALSE(table_.HasAllPlans(Push(2, 2, true)));
  table_.Apply(Push(1, 2, true));
  EXPECT_EQ(table_.in_force().size(), 2U);
  EXPECT_EQ(news_.size(), 2U);
}

TEST_F(RankPlanTableTest, ADifferenceChangesOnlyTheRanksThatItNames) {
  table_.HandlePlan(Plan(1, "a", 0, 7));
  table_.HandlePlan(Plan(1, "b", 0, 8));
  table_.Apply(Push(1, 2, true));
  table_.HandlePlan(Plan(2, "a", 0, 9));
  table_.Apply(Push(2, 1, false));
  EXPECT_EQ(table_.in_force().at({"a", 0}).version, 9U);
  EXPECT_EQ(table_.in_force().at({"b", 0}).version, 8U);
  table_.HandlePlan(Plan(3, "b", 0, 0));
  table_.Apply(Push(3, 1, false));
  EXPECT_EQ(table_.in_force().size(), 1U);
  EXPECT_EQ(news_.back().program, "");
}

TEST_F(RankPlanTableTest, AFullPushReplacesAllPlansAndReportsOnlyChanges) {
  table_.HandlePlan(Plan(1, "a", 0, 7));
  table_.HandlePlan(Plan(1, "b", 0, 8));
  table_.Apply(Push(1, 2, true));
  news_.clear();
  table_.HandlePlan(Plan(2, "a", 0, 7));
  table_.Apply(Push(2, 1, true));
  ASSERT_EQ(news_.size(), 1U);
  EXPECT_EQ(news_[0].job, "b");
  EXPECT_EQ(news_[0].program, "");
  table_.Apply(Push(3, 0, true));
  EXPECT_TRUE(table_.in_force().empty());
}

TEST_F(RankPlanTableTest, PlansWithoutTheirPushAreForgotten) {
  table_.HandlePlan(Plan(1, "a", 0, 7));
  table_.HandlePlan(Plan(2, "b", 0, 8));
  EXPECT_TRUE(table_.HasAllPlans(Push(2, 1, false)));
  table_.Apply(Push(2, 1, false));
  EXPECT_EQ(table_.in_force().size(), 1U);
  EXPECT_TRUE(table_.in_force().contains({"b", 0}));
}

}  // namespace
}  // namespace espalier::agent
