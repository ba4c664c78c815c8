// Tests on a whole controller that actions which move many flows must be confirmed.
#include <gtest/gtest.h>

#include "controller/operations/operation_queue.h"
#include "tests/controller/four_flows.h"

namespace espalier::controller {
namespace {

TEST(Confirmation, AsksBeforeItMovesMoreFlowsThanConfigured) {
  Cluster cluster(kFourLeaves, {.confirm_moves_above = 1});
  cluster.ConnectAll();
  OpenFourFlows(cluster);
  // One flow of the four takes each spine.
  const auto one = cluster.ChangeNode("spine0", IntentAction::kDrain, {.dry_run = true});
  ASSERT_TRUE(one.has_value());
  EXPECT_EQ(one->question, "");
  ASSERT_TRUE(cluster.ChangeNode("spine0", IntentAction::kDrain));
  const auto many = cluster.ChangeLink("leaf0--spine1", IntentAction::kDrain, {.dry_run = true});
  ASSERT_TRUE(many.has_value());
  ASSERT_GT(many->moves.size(), 1U);
  EXPECT_EQ(many->question, "this would move 2 flows, more than confirm_moves_above (1)");
  const auto refused = cluster.ChangeLink("leaf0--spine1", IntentAction::kDrain);
  EXPECT_EQ(refused.error().code, ErrorCode::kFailedPrecondition);
  EXPECT_TRUE(cluster.state().intents.drained_links.empty());
  EXPECT_EQ(cluster.disk.audit.back().result, AuditResult::kRefused);
  EXPECT_EQ(cluster.disk.audit.back().revision, 0U);
  ASSERT_TRUE(cluster.ChangeLink("leaf0--spine1", IntentAction::kDrain, {.force = true}));
  EXPECT_EQ(cluster.state().intents.drained_links.size(), 1U);
}

}  // namespace
}  // namespace espalier::controller
