// Paths of flows that have lost theirs.
#include "controller/placement/failures/rerouter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/controller/placement/placed_flows.h"

namespace espalier::controller {
namespace {

using testing::ElementsAre;
using testing::SizeIs;

class RerouterTest : public Split {};

TEST_F(RerouterTest, SharesTheRemainingPathsAndReturns) {
  Start(2);
  ASSERT_TRUE(cluster_.ChangeLink("leaf0--spine1", IntentAction::kFail).has_value());
  cluster_.Settle();
  for (int host = 0; host < 3; ++host) {
    EXPECT_THAT(Spines(host), ElementsAre(0, 0));
    const wire::PathSet& set = cluster_.host(host).sets.at(1);
    EXPECT_EQ(set.reason, wire::PathReason::kPathDead);
    EXPECT_NE(set.paths[0].source_port, set.paths[1].source_port);
  }
  EXPECT_EQ(cluster_.state().flow_paths.assigner().MaxLoad(), (Load{3, 1}));
  ASSERT_TRUE(cluster_.ChangeLink("leaf0--spine1", IntentAction::kRestore).has_value());
  cluster_.Settle();
  // Three of the six subflows move; they may belong to two flows.
  EXPECT_THAT(cluster_.Recompute()->moves, SizeIs(2));
  cluster_.Settle();
  EXPECT_EQ(cluster_.state().flow_paths.assigner().MaxLoad(), (Load{3, 2}));
}

}  // namespace
}  // namespace espalier::controller
