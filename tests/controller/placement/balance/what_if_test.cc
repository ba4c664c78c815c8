// Dry runs.
#include "controller/placement/balance/what_if.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

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

// Phases of one flow each, beside flows of another job to the same leaf.
class RecomputeAroundPhasesTest : public RecomputeTest {
 protected:
  // Learns the phases of the flows of these hosts.
  void LearnPhases(const std::vector<int>& hosts) {
    std::vector<std::vector<int>> phases;
    for (const int host : hosts) {
      OpenBusy(host);
      phases.push_back({host});
    }
    for (const int host : hosts) Toggle(host);
    cluster_.Settle();
    RunPeriods(12, phases);
    ASSERT_FALSE(cluster_.state().phases.IsEmpty());
  }
  int SpineOf(int host) const {
    return cluster_.AppliedSpine(host, 1, host < 4 ? host + 4 : host - 4);
  }
  // Opens four flows of another job, of which this many last, all over this spine. The phases are
  // not planned again around them yet.
  void OpenOthersOver(int spine, int count) {
    for (const int host : {8, 9, 10, 11}) {
      cluster_.Open(host, {{.id = 1, .to = host - 4, .job = "other"}});
      cluster_.Settle();
    }
    for (const int host : {8, 9, 10, 11}) {
      if (SpineOf(host) == spine && count-- > 0) continue;
      cluster_.End(host, 1);
    }
    ASSERT_LE(count, 0);
  }
};

TEST_F(RecomputeAroundPhasesTest, MovesOtherFlowsAwayFromTheBusiestPhase) {
  ASSERT_NO_FATAL_FAILURE(LearnPhases({0}));
  const int spine = SpineOf(0);
  ASSERT_NO_FATAL_FAILURE(OpenOthersOver(spine, 1));
  const ActionOutcome outcome = cluster_.Recompute().value();
  EXPECT_EQ(outcome.before.max_load, (Load{2, 1}));
  EXPECT_EQ(outcome.after.max_load, (Load{1, 1}));
  ASSERT_EQ(outcome.moves.size(), 1U);
  EXPECT_EQ(outcome.moves[0].job, "other");
  EXPECT_EQ(SpineOf(0), spine);
}

// Each spine carries at most one flow in any phase, and one of the other job. All five flows
// together would put three on one spine.
TEST_F(RecomputeAroundPhasesTest, CountsPhasesApartAndLeavesTheirFlowsWhereTheyAre) {
  ASSERT_NO_FATAL_FAILURE(LearnPhases({0, 1, 2}));
  const std::vector<int> spines = {SpineOf(0), SpineOf(1), SpineOf(2)};
  const int alone = std::ranges::count(spines, 0) == 1 ? 0 : 1;
  ASSERT_EQ(std::ranges::count(spines, alone), 1);
  ASSERT_NO_FATAL_FAILURE(OpenOthersOver(alone, 2));
  const ActionOutcome outcome = cluster_.Recompute().value();
  cluster_.Settle();
  EXPECT_EQ(outcome.before.max_load, (Load{3, 1}));
  EXPECT_EQ(outcome.after.max_load, (Load{2, 1}));
  ASSERT_EQ(outcome.moves.size(), 1U);
  EXPECT_EQ(outcome.moves[0].job, "other");
  EXPECT_EQ((std::vector<int>{SpineOf(0), SpineOf(1), SpineOf(2)}), spines);
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
