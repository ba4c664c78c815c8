#include "controller/state/flows/may_move.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

namespace espalier::controller {
namespace {

constexpr std::int64_t kVersion = 7;  // of the topology

// What holds a flow, or nothing.
enum class Hold { kNothing, kRigid, kOnPlan, kRerouted };

Flow FlowOf(FlowStatus status, Hold hold) {
  Flow flow;
  flow.status = status;
  flow.movable = hold != Hold::kRigid;
  flow.is_on_plan = hold == Hold::kOnPlan;
  flow.rerouted_in = hold == Hold::kRerouted ? kVersion : -1;
  return flow;
}

// The statuses in which a mover may move a flow that nothing holds, and the holds that it passes.
struct Row {
  Mover mover;
  std::string statuses;
  std::string passes;
};
const std::vector<Row> kRows = {
    {Mover::kChain, "NEW ADOPTING LEARNING ROUTED", "rerouted"},
    {Mover::kRelief, "ROUTED", "rerouted"},
    {Mover::kPlan, "NEW ADOPTING LEARNING ROUTED UNROUTABLE", "plan"},
    {Mover::kBurst, "NEW LEARNING ROUTED UNROUTABLE", "plan rerouted"},
    {Mover::kFailure, "NEW ADOPTING LEARNING ROUTED UNROUTABLE", "rigid plan rerouted"},
    {Mover::kStandby, "ROUTED", "plan rerouted"},
    {Mover::kReturn, "ROUTED", "plan rerouted"},
    {Mover::kAnswer, "NEW LEARNING ROUTED UNROUTABLE", "plan rerouted"},
    {Mover::kSplit, "NEW ADOPTING LEARNING ROUTED", "rerouted"},
    {Mover::kOperator, "NEW ADOPTING LEARNING ROUTED UNROUTABLE", "plan rerouted"},
};

const std::map<Hold, std::string> kHolds = {
    {Hold::kRigid, "rigid"}, {Hold::kOnPlan, "plan"}, {Hold::kRerouted, "rerouted"}};

// Whether the name is one of these words.
bool Has(const std::string& words, std::string_view name) {
  return (" " + words + " ").find(" " + std::string(name) + " ") != std::string::npos;
}

TEST(MayMove, IsATableOfStatesAndMovers) {
  ASSERT_EQ(kRows.size(), kMoverRules.size());
  for (const Row& row : kRows) {
    for (const FlowStatus status : {FlowStatus::kNew, FlowStatus::kAdopting, FlowStatus::kLearning,
                                    FlowStatus::kRouted, FlowStatus::kLocal, FlowStatus::kFixed,
                                    FlowStatus::kUnsteered, FlowStatus::kUnroutable}) {
      SCOPED_TRACE(std::to_string(static_cast<int>(row.mover)) + " " +
                   std::string(FlowStatusName(status)));
      const bool may = Has(row.statuses, FlowStatusName(status));
      EXPECT_EQ(MayMove(FlowOf(status, Hold::kNothing), row.mover, kVersion), may);
      for (const auto& [hold, name] : kHolds) {
        EXPECT_EQ(MayMove(FlowOf(status, hold), row.mover, kVersion), may && Has(row.passes, name))
            << name;
      }
    }
  }
}

TEST(MayMove, EachMoverHasItsRow) {
  for (std::size_t i = 0; i < kMoverRules.size(); ++i) {
    EXPECT_EQ(static_cast<std::size_t>(kMoverRules[i].mover), i);
  }
}

// Two holds at once hold as much as the stronger one.
TEST(MayMove, AFlowWithSeveralHoldsMovesOnlyIfTheMoverPassesAll) {
  Flow flow = FlowOf(FlowStatus::kRouted, Hold::kOnPlan);
  flow.rerouted_in = kVersion;
  EXPECT_FALSE(MayMove(flow, Mover::kChain, kVersion));
  EXPECT_FALSE(MayMove(flow, Mover::kPlan, kVersion));
  EXPECT_TRUE(MayMove(flow, Mover::kStandby, kVersion));
  flow.movable = false;
  EXPECT_FALSE(MayMove(flow, Mover::kStandby, kVersion));
  EXPECT_TRUE(MayMove(flow, Mover::kFailure, kVersion));
}

// Once the topology changes, what the host found out about the path it left does not count.
TEST(MayMove, ALocalRerouteHoldsUntilTheTopologyChanges) {
  const Flow flow = FlowOf(FlowStatus::kRouted, Hold::kRerouted);
  EXPECT_FALSE(MayMove(flow, Mover::kPlan, kVersion));
  EXPECT_TRUE(MayMove(flow, Mover::kPlan, kVersion + 1));
}

}  // namespace
}  // namespace espalier::controller
