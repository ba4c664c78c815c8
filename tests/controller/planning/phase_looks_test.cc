#include "controller/planning/phase_looks.h"

#include <gtest/gtest.h>

#include <vector>

namespace espalier::controller {
namespace {

using Found = PhaseLooks::Found;

class PhaseLooksTest : public testing::Test {
 protected:
  // Looks, and plans if that is due. Returns whether it was.
  bool LookAndPlan(const std::vector<Found>& all) {
    looks_.Look(all);
    const bool is_due = looks_.AreConfirmed();
    if (is_due) looks_.HandlePlan(/*is_for_flows=*/false);
    return is_due;
  }
  // How many plans so many looks cause.
  int PlansOf(int looks, const std::vector<Found>& all) {
    int plans = 0;
    for (int i = 0; i < looks; ++i) plans += LookAndPlan(all) ? 1 : 0;
    return plans;
  }

  PhaseLooks looks_;
};

TEST_F(PhaseLooksTest, OtherPhasesCountWhenFurtherLooksFindThemAgain) {
  looks_.Look(std::vector<Found>{{1, 10}});
  looks_.HandlePlan(/*is_for_flows=*/true);
  EXPECT_TRUE(looks_.ArePlanned());
  EXPECT_FALSE(LookAndPlan({{1, 11}}));
  EXPECT_FALSE(looks_.ArePlanned());
  EXPECT_FALSE(LookAndPlan({{1, 10}})) << "late once";
  EXPECT_TRUE(looks_.ArePlanned());
  EXPECT_FALSE(LookAndPlan({{1, 11}}));
  EXPECT_TRUE(LookAndPlan({{1, 11}}));
  EXPECT_TRUE(looks_.ArePlanned());
}

TEST_F(PhaseLooksTest, PhasesThatDoNotLastMustBeTheSameForEverLonger) {
  std::uint64_t phases = 0;
  const auto looks_until_planned = [&] {
    ++phases;
    int looks = 1;
    while (!LookAndPlan({{1, phases}})) ++looks;
    return looks;
  };
  EXPECT_EQ(looks_until_planned(), 2);
  EXPECT_EQ(looks_until_planned(), 3);
  EXPECT_EQ(looks_until_planned(), 5);
  EXPECT_EQ(looks_until_planned(), 9);
  for (int i = 0; i < 10; ++i) looks_until_planned();
  EXPECT_EQ(looks_until_planned(), PhaseLooks::kMostLooks + 1);
  // Once a plan lasts, the next change counts sooner and sooner.
  for (int i = 0; i < PhaseLooks::kMostLooks; ++i) LookAndPlan({{1, phases}});
  EXPECT_EQ(looks_until_planned(), PhaseLooks::kMostLooks / 2 + 1);
}

// Flows of several jobs are often late together.
TEST_F(PhaseLooksTest, WaitsUntilAllJobsAreCalm) {
  looks_.Look(std::vector<Found>{{1, 10}, {2, 20}});
  looks_.HandlePlan(/*is_for_flows=*/true);
  EXPECT_FALSE(LookAndPlan({{1, 11}, {2, 20}}));
  EXPECT_FALSE(LookAndPlan({{1, 11}, {2, 21}}));
  EXPECT_FALSE(LookAndPlan({{1, 11}, {2, 20}}));
  EXPECT_TRUE(LookAndPlan({{1, 11}, {2, 20}}));
}

// A job whose phases are others at each look neither causes plans nor keeps another job from one.
TEST_F(PhaseLooksTest, DoesNotWaitForAJobWithoutOrder) {
  looks_.Look(std::vector<Found>{{1, 10}, {2, 20}});
  looks_.HandlePlan(/*is_for_flows=*/true);
  std::uint64_t noise = 100;
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(LookAndPlan({{1, 10}, {2, ++noise}}));
  EXPECT_FALSE(LookAndPlan({{1, 11}, {2, ++noise}}));
  EXPECT_TRUE(LookAndPlan({{1, 11}, {2, ++noise}}));
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(LookAndPlan({{1, 11}, {2, ++noise}}));
  EXPECT_FALSE(LookAndPlan({{1, 12}, {2, ++noise}}));
  EXPECT_TRUE(LookAndPlan({{1, 12}, {2, ++noise}})) << "the last plan has lasted";
  // It counts again once it is calm.
  for (int i = 0; i < 2 * PhaseLooks::kPatience; ++i) LookAndPlan({{1, 12}, {2, 200'000}});
  EXPECT_TRUE(looks_.ArePlanned());
  EXPECT_FALSE(LookAndPlan({{1, 13}, {2, 200'000}}));
  EXPECT_FALSE(LookAndPlan({{1, 13}, {2, 200'001}}));
}

TEST_F(PhaseLooksTest, FlowsThatOpenAndCloseDoNotMakeItWait) {
  for (int i = 0; i < 10; ++i) {
    looks_.Look(std::vector<Found>{{1, static_cast<std::uint64_t>(i)}});
    looks_.HandlePlan(/*is_for_flows=*/true);
  }
  EXPECT_FALSE(LookAndPlan({{1, 50}}));
  EXPECT_TRUE(LookAndPlan({{1, 50}}));
}

TEST_F(PhaseLooksTest, ALookThatFindsNothingNewCounts) {
  looks_.Look(std::vector<Found>{{1, 10}});
  EXPECT_FALSE(looks_.AreConfirmed());
  looks_.LookAgain();
  EXPECT_TRUE(looks_.AreConfirmed());
}

TEST_F(PhaseLooksTest, ForgetsJobsThatAreGone) {
  EXPECT_EQ(PlansOf(2, {{1, 10}, {2, 20}}), 1);
  looks_.Look(std::vector<Found>{{2, 20}});
  EXPECT_TRUE(looks_.ArePlanned());
  looks_.Look(std::vector<Found>{{1, 10}, {2, 20}});
  EXPECT_FALSE(looks_.ArePlanned()) << "a new job";
}

}  // namespace
}  // namespace espalier::controller
