// Dry runs.
#include "controller/placement/balance/what_if.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/controller/cluster.h"
#include "tests/controller/placement/arrivals/bursts_fixture.h"

namespace espalier::controller {
namespace {

// Flows go where the dry run has said, in any state of the fabric.
TEST(WhatIfTest, DryRunsPredictWhereFlowsGo) {
  Cluster cluster({.spines = 4, .leaves = 6, .hosts_per_leaf = 4},
                  {.moves_per_start = 0, .plan_ahead = false});
  cluster.ConnectAll();
  std::uint64_t random = 1;
  const auto draw = [&random](std::uint64_t bound) {
    random = random * 6'364'136'223'846'793'005U + 1'442'695'040'888'963'407U;
    return (random >> 33) % bound;
  };
  for (std::uint64_t id = 1; id <= 60; ++id) {
    const int from = static_cast<int>(draw(24));
    const int to = static_cast<int>(draw(24));
    const auto paths = static_cast<std::uint8_t>(1 + draw(2));
    if (from != to) cluster.Open(from, {{.id = id, .to = to, .max_paths = paths}});
  }
  cluster.Settle();
  std::size_t moved = 0;
  for (int round = 0; round < 12; ++round) {
    const std::string link = "leaf" + std::to_string(draw(6)) + "--spine" + std::to_string(draw(4));
    const auto action = round % 2 == 0 ? IntentAction::kFail : IntentAction::kDrain;
    const auto dry_run = cluster.ChangeLink(link, action, {.dry_run = true});
    const auto real = cluster.ChangeLink(link, action);
    ASSERT_EQ(dry_run.has_value(), real.has_value());
    if (!real) continue;
    ASSERT_EQ(dry_run->moves.size(), real->moves.size()) << link;
    for (std::size_t i = 0; i < real->moves.size(); ++i) {
      EXPECT_EQ(dry_run->moves[i].flow, real->moves[i].flow);
      EXPECT_EQ(dry_run->moves[i].from, real->moves[i].from);
      EXPECT_EQ(dry_run->moves[i].to, real->moves[i].to) << link << " " << real->moves[i].flow;
    }
    moved += real->moves.size();
    cluster.Settle();
  }
  EXPECT_GT(moved, 10U);
  const auto dry_run = cluster.RollBack(0, {.dry_run = true});
  ASSERT_TRUE(dry_run) << dry_run.error().message;
  EXPECT_TRUE(dry_run->moves.empty());  // all links come back: nothing has to move
}

// In a dry run, too, edges of forests do not move for others.
TEST(WhatIfTest, EdgesOfForestsCountInADryRun) {
  Cluster cluster({.spines = 4, .leaves = 3, .hosts_per_leaf = 2},
                  {.fabric_hashes_protocol = false, .moves_per_start = 0, .plan_ahead = false});
  cluster.ConnectAll();
  ASSERT_TRUE(cluster.StartJob({.name = "train", .ranks = {"h0", "h2"}}).has_value());
  cluster.Settle();
  ASSERT_FALSE(cluster.state().edges.all().empty());
  for (std::uint64_t id = 1; id <= 8; ++id) cluster.Open(1, {{.id = id, .to = 3}});
  cluster.Settle();
  std::size_t moved = 0;
  for (const char* link : {"leaf2--spine0", "leaf1--spine1", "leaf0--spine3"}) {
    const auto dry_run = cluster.ChangeLink(link, IntentAction::kFail, {.dry_run = true});
    const auto real = cluster.ChangeLink(link, IntentAction::kFail);
    ASSERT_TRUE(dry_run.has_value() && real.has_value());
    ASSERT_EQ(dry_run->moves.size(), real->moves.size()) << link;
    for (std::size_t i = 0; i < real->moves.size(); ++i) {
      EXPECT_EQ(dry_run->moves[i].to, real->moves[i].to) << link << " " << real->moves[i].flow;
    }
    moved += real->moves.size();
    cluster.Advance(std::chrono::seconds(1));
  }
  EXPECT_GE(moved, 2U);
}

class RecomputeTest : public BurstsTest {
 protected:
  RecomputeTest() : BurstsTest({.moves_per_start = 0}) {}
  // What a dry run answers: the loads, and the flows that it would move.
  std::string Answer() {
    const ActionOutcome outcome = cluster_.Recompute({.dry_run = true}).value();
    std::string answer = outcome.before.max_load.ToString() + " > " +
                         outcome.after.max_load.ToString() +
                         " >= " + outcome.after.lower_bound.ToString();
    for (const FlowMove& move : outcome.moves) answer += " " + move.flow + ":" + move.to;
    return answer;
  }
};

// The question is asked in each phase of a job and between them.
TEST_F(RecomputeTest, AnswersTheSameAtAnyInstantOfTheBursts) {
  OpenConnections();
  RunPeriods(12);
  OpenTwoOnOneSpine();
  cluster_.Advance(1s);
  const std::string pause = Answer();
  EXPECT_EQ(pause.substr(0, 10), "2 > 1 >= 1");
  for (const std::vector<int>& phase : {std::vector<int>{0, 1}, {2, 3}}) {
    for (const int host : phase) Toggle(host);
    cluster_.Settle();
    EXPECT_EQ(Answer(), pause);
    for (const int host : phase) Toggle(host);
    cluster_.Settle();
    cluster_.Advance(100ms);
  }
  const ActionOutcome done = cluster_.Recompute().value();
  EXPECT_EQ(done.moves.size(), 1U);
  EXPECT_EQ(done.moves[0].job, "other");  // the flows in phases follow their plan
  EXPECT_TRUE(Summarize(cluster_.state()).IsOptimal());
}

// Two phases of one flow each, both over one spine: no phase needs another one, though both flows
// together would.
class RecomputeAroundPhasesTest : public RecomputeTest {
 protected:
  void SetUp() override {
    for (const int host : {0, 1, 2}) OpenBusy(host);
    cluster_.End(1, 1);
    for (const int host : {0, 2}) Toggle(host);
    cluster_.Settle();
    RunPeriods(12, {0}, {2});
    spine_ = cluster_.AppliedSpine(0, 1, 1);
    ASSERT_EQ(cluster_.AppliedSpine(2, 1, 1), spine_);
    ASSERT_FALSE(cluster_.state().phases.IsEmpty());
  }
  int spine_ = 0;
};

TEST_F(RecomputeAroundPhasesTest, LeavesFlowsOfDifferentPhasesOnOneSpine) {
  cluster_.Advance(1s);
  EXPECT_EQ(Summarize(cluster_.state()).max_load, (Load{1, 1}));
  EXPECT_TRUE(cluster_.Recompute().value().moves.empty());
  cluster_.Settle();
  EXPECT_EQ(cluster_.AppliedSpine(0, 1, 1), spine_);
  EXPECT_EQ(cluster_.AppliedSpine(2, 1, 1), spine_);
}

// Of two flows to hosts of the second leaf, the one that shares no link with the phases ends.
TEST_F(RecomputeAroundPhasesTest, MovesOtherFlowsAwayFromTheBusiestPhase) {
  for (const int host : {8, 9}) {
    cluster_.Open(host, {{.id = 1, .to = host - 3, .job = "other"}});
    cluster_.Settle();
  }
  const int beside = cluster_.AppliedSpine(8, 1, 1) == spine_ ? 8 : 9;
  ASSERT_EQ(cluster_.AppliedSpine(beside, 1, 1), spine_);
  cluster_.End(beside == 8 ? 9 : 8, 1);
  cluster_.Advance(1s);
  const ActionOutcome outcome = cluster_.Recompute().value();
  cluster_.Settle();
  EXPECT_EQ(outcome.before.max_load, (Load{2, 1}));
  EXPECT_EQ(outcome.after.max_load, (Load{1, 1}));
  EXPECT_EQ(outcome.moves.size(), 1U);
  EXPECT_NE(cluster_.AppliedSpine(beside, 1, 1), spine_);
  EXPECT_EQ(cluster_.AppliedSpine(0, 1, 1), spine_);
}

// A recomputation leaves what is in phases to their plan, so no theorem says what it reaches.
TEST_F(RecomputeTest, NoTheoremPromisesAnythingWhilePhasesAreKnown) {
  OpenConnections();
  EXPECT_NE(FindTheorem(cluster_.state()), Proof::kNone);
  RunPeriods(12);
  EXPECT_EQ(FindTheorem(cluster_.state()), Proof::kNone);
}

}  // namespace
}  // namespace espalier::controller
