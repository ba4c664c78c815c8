// Recomputations by an operator.
#include "controller/placement/balance/reassigner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/controller/placement/placed_flows.h"

namespace espalier::controller {
namespace {

using testing::HasSubstr;
using testing::SizeIs;

class ReassignerTest : public Corner {};

TEST_F(ReassignerTest, RecomputeReportsTheBoundAndMovesNothingWithoutGain) {
  Build({.moves_per_start = 0});
  Open(0, {.id = 2, .to = 3});
  const ActionOutcome dry = cluster_->Recompute({.dry_run = true}).value();
  EXPECT_GE(dry.moves.size(), 1U);
  EXPECT_EQ(dry.before.max_load, (Load{2, 1}));
  EXPECT_EQ(dry.after.max_load, (Load{1, 1}));
  EXPECT_EQ(MaxLoad(), (Load{2, 1}));
  cluster_->controller().RefreshMetrics();
  EXPECT_THAT(cluster_->MetricsText(), HasSubstr("espalier_controller_max_link_load 2"));
  EXPECT_THAT(cluster_->MetricsText(), HasSubstr("espalier_controller_max_link_load_bound 1"));

  const ActionOutcome outcome = cluster_->Recompute().value();
  cluster_->Settle();
  EXPECT_EQ(outcome.moves.size(), dry.moves.size());
  EXPECT_TRUE(outcome.after.IsOptimal());
  EXPECT_EQ(MaxLoad(), (Load{1, 1}));
  EXPECT_THAT(cluster_->Recompute()->moves, SizeIs(0));
  EXPECT_THAT(cluster_->state().history.Since(0, 1'000).back().text,
              HasSubstr("max_load=1 bound=1"));
}

// Two flows could make room. Of equally good assignments, the one that moves fewer bytes wins.
TEST_F(ReassignerTest, RecomputeMovesTheFewestBytesInFlightWithinItsLimit) {
  const auto in_flight = [&](int host, std::uint64_t flow, std::uint64_t bytes) {
    wire::FlowReport report;
    report.progress.push_back(
        {.id = wire::LocalFlowId(flow), .remaining_bytes = 1 << 30, .outstanding_bytes = bytes});
    cluster_->Report(host, std::move(report));
    cluster_->Settle();
  };
  for (const bool first_has_fewer : {true, false}) {
    Build({.moves_per_start = 0});
    Open(0, {.id = 2, .to = 3});
    ASSERT_EQ(MaxLoad(), (Load{2, 1}));
    in_flight(0, 1, first_has_fewer ? 1'000 : 9'000);
    in_flight(2, 2, first_has_fewer ? 9'000 : 1'000);
    in_flight(0, 2, 5'000);
    const ActionOutcome none = cluster_->Recompute({.max_moved_bytes = 999}).value();
    EXPECT_THAT(none.moves, SizeIs(0));
    EXPECT_EQ(none.after.max_load, (Load{2, 1}));
    const ActionOutcome dry = cluster_->Recompute({.dry_run = true}).value();
    const ActionOutcome done = cluster_->Recompute({.max_moved_bytes = 6'000}).value();
    EXPECT_EQ(done.after.max_load, (Load{1, 1}));
    for (const ActionOutcome& outcome : {dry, done}) {
      std::int64_t bytes = 0;
      for (const FlowMove& move : outcome.moves) bytes += move.bytes_in_flight;
      EXPECT_GT(bytes, 0);
      EXPECT_LE(bytes, 6'000);
    }
    EXPECT_THAT(cluster_->Recompute()->moves, SizeIs(0));
  }
}

TEST_F(ReassignerTest, AFlowThatCannotMoveStaysForArrivalsAndRecomputations) {
  Build({}, /*movable=*/false);
  Open(0, {.id = 2, .to = 3});
  EXPECT_EQ(MaxLoad(), (Load{1, 1}));
  EXPECT_EQ(cluster_->AppliedSpine(2, 2, 3), 1);
  cluster_->Recompute();
  cluster_->Settle();
  EXPECT_EQ(cluster_->AppliedSpine(2, 2, 3), 1);
}

}  // namespace
}  // namespace espalier::controller
