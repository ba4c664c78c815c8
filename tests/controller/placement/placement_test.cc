// The parts of placement together.
#include "controller/placement/placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>

#include "tests/controller/placement/placed_flows.h"

namespace espalier::controller {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

class PlacementTest : public Corner {};

TEST_F(PlacementTest, FlowsWithoutAPathAreReportedAndOthersPlaced) {
  Build({});
  for (const char* link : {"leaf1--spine0", "leaf1--spine1"}) {
    ASSERT_TRUE(cluster_->ChangeLink(link, IntentAction::kFail).has_value());
  }
  Open(0, {.id = 2, .to = 3});
  Open(3, {.id = 3, .to = 1});
  EXPECT_EQ(cluster_->FlowOf(0, 1).status, FlowStatus::kUnroutable);
  EXPECT_EQ(cluster_->FlowOf(3, 3).status, FlowStatus::kUnroutable);
  EXPECT_EQ(cluster_->FlowOf(0, 2).status, FlowStatus::kRouted);
  const ActionOutcome outcome = cluster_->Recompute().value();
  EXPECT_EQ(outcome.after.max_load, (Load{1, 1}));
  EXPECT_EQ(outcome.after.lower_bound, (Load{1, 1}));
  EXPECT_FALSE(outcome.after.IsOptimal());  // two flows are left out
  EXPECT_EQ(outcome.after.reach.without_path, 2);
  cluster_->controller().RefreshMetrics();
  EXPECT_THAT(cluster_->MetricsText(), HasSubstr("espalier_controller_flows_unroutable 2"));
}

class ReturnedLinksTest : public LocalReroute {
 protected:
  void SetLink(IntentAction action) {
    ASSERT_TRUE(cluster_.ChangeLink("leaf0--spine1", action).has_value());
    cluster_.Settle();
  }
};

// Connections that stay open for weeks: no arrival moves anything.
TEST_F(ReturnedLinksTest, AreUsedAgainWithoutANewFlow) {
  SetLink(IntentAction::kFail);
  ASSERT_EQ(MaxLoad(), (Load{2, 1}));
  cluster_.Advance(10s);
  const std::int64_t moved = cluster_.CounterValue("espalier_controller_flows_moved_total");
  SetLink(IntentAction::kRestore);
  EXPECT_EQ(MaxLoad(), (Load{2, 1}));
  cluster_.Advance(2s);
  EXPECT_EQ(MaxLoad(), (Load{1, 1}));
  EXPECT_EQ(cluster_.CounterValue("espalier_controller_flows_moved_total"), moved + 1);
  cluster_.Advance(5s);
  EXPECT_EQ(cluster_.CounterValue("espalier_controller_flows_moved_total"), moved + 1);
}

TEST_F(ReturnedLinksTest, AreNotUsedWhileTheyFlap) {
  SetLink(IntentAction::kFail);
  const std::int64_t moved = cluster_.CounterValue("espalier_controller_flows_moved_total");
  for (int i = 0; i < 5; ++i) {
    SetLink(IntentAction::kRestore);
    cluster_.Advance(500ms);
    EXPECT_EQ(MaxLoad(), (Load{2, 1}));
    SetLink(IntentAction::kFail);
    cluster_.Advance(300ms);
  }
  EXPECT_EQ(cluster_.CounterValue("espalier_controller_flows_moved_total"), moved);
}

}  // namespace
}  // namespace espalier::controller
