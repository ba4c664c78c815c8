// The parts of placement together.
#include "controller/placement/placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/controller/placement/placed_flows.h"

namespace espalier::controller {
namespace {

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
  EXPECT_TRUE(outcome.after.IsOptimal());
  cluster_->controller().RefreshMetrics();
  EXPECT_THAT(cluster_->MetricsText(), HasSubstr("espalier_controller_flows_unroutable 2"));
}

}  // namespace
}  // namespace espalier::controller
