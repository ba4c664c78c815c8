// What operators do to a controller, and what is stored of it.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/controller/cluster.h"

namespace espalier::controller {
namespace {

using namespace std::chrono_literals;

constexpr fabric::LeafSpineOptions kShape{.spines = 4, .leaves = 4, .hosts_per_leaf = 4};

// One flow from each host of the first leaf to one of the second: one on each spine.
void OpenFourFlows(Cluster& cluster) {
  for (int i = 0; i < 4; ++i) cluster.Open(i, {{.id = 1, .to = 4 + i}});
  cluster.Settle();
}

TEST(Operations, GoesOnWhileAnActionIsMadeDurableAndTakesTheNextInOrder) {
  Cluster cluster(kShape);
  cluster.ConnectAll();
  OpenFourFlows(cluster);
  std::vector<std::string> answers;
  const auto note = [&](const std::string& name) {
    return [&answers, name](const Result<ActionOutcome>& outcome) {
      answers.push_back(name +
                        (outcome ? "" : " " + std::string(ErrorCodeName(outcome.error().code))));
    };
  };
  Controller& controller = cluster.controller();
  controller.ChangeLink("leaf1--spine2", IntentAction::kFail, {}, note("fail"));
  controller.ChangeLink("leaf1--spine2", IntentAction::kFail, {}, note("again"));
  controller.ChangeLink("leaf1--spine2", IntentAction::kRestore, {}, note("restore"));
  EXPECT_TRUE(answers.empty());
  EXPECT_EQ(cluster.state().topology.version(), 1);  // nothing moves before it is durable
  cluster.Settle();
  EXPECT_EQ(answers, (std::vector<std::string>{"fail", "again already exists", "restore"}));
  EXPECT_EQ(cluster.state().topology.version(), 3);
  ASSERT_EQ(cluster.disk.audit.size(), 3U);
  EXPECT_EQ(cluster.disk.audit[0].moves.size(), 1U);
  EXPECT_EQ(cluster.disk.audit[1].result, AuditResult::kRefused);
  for (int i = 0; i < 80; ++i) {
    controller.ChangeLink("leaf1--spine2", IntentAction::kFail, {}, note("many"));
  }
  EXPECT_EQ(answers.back(), "many resource exhausted");
  cluster.Settle();
}

TEST(Operations, EndsWhatWasDrainedUntilATime) {
  WallTime now{std::chrono::hours(1'000)};
  Cluster cluster(kShape, {.wall_clock = [&now] { return now; }});
  const auto is_drained = [&] { return !cluster.state().intents.drained_nodes.empty(); };
  EXPECT_EQ(cluster.ChangeNode("spine0", IntentAction::kDrain, {.until = now}).error().code,
            ErrorCode::kInvalidArgument);
  ASSERT_TRUE(cluster.ChangeNode("spine0", IntentAction::kDrain, {.until = now + 1h}).has_value());
  now += 59min;
  cluster.Advance(2s);
  EXPECT_TRUE(is_drained());
  cluster.RestartController();
  EXPECT_TRUE(is_drained());
  now += 2min;
  cluster.Advance(2s);
  EXPECT_FALSE(is_drained());
  EXPECT_TRUE(cluster.disk.intents().drained_nodes.empty());
  EXPECT_EQ(cluster.disk.audit.back().actor, "espalier");
  // What has ended does not come back by a rollback to the time before.
  EXPECT_EQ(cluster.RollBack(1).error().code, ErrorCode::kAlreadyExists);
}

// Where flows would go is where they go then, whatever is on the fabric.
TEST(Operations, DryRunsTellWhereFlowsWouldGo) {
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
    const auto told = cluster.ChangeLink(link, action, {.dry_run = true});
    const auto done = cluster.ChangeLink(link, action);
    ASSERT_EQ(told.has_value(), done.has_value());
    if (!done) continue;
    ASSERT_EQ(told->moves.size(), done->moves.size()) << link;
    for (std::size_t i = 0; i < done->moves.size(); ++i) {
      EXPECT_EQ(told->moves[i].flow, done->moves[i].flow);
      EXPECT_EQ(told->moves[i].from, done->moves[i].from);
      EXPECT_EQ(told->moves[i].to, done->moves[i].to) << link << " " << done->moves[i].flow;
    }
    moved += done->moves.size();
    cluster.Settle();
  }
  EXPECT_GT(moved, 10U);
  const auto told = cluster.RollBack(0, {.dry_run = true});
  ASSERT_TRUE(told) << told.error().message;
  EXPECT_TRUE(told->moves.empty());  // all links come back: nothing has to move
}

TEST(Operations, RollsBackToEarlierIntents) {
  Cluster cluster(kShape);
  cluster.ConnectAll();
  OpenFourFlows(cluster);
  const std::uint64_t epoch = cluster.state().epoch;
  ASSERT_TRUE(cluster.ChangeLink("leaf0--spine0", IntentAction::kFail));
  ASSERT_TRUE(cluster.ChangeLink("leaf0--spine1", IntentAction::kFail));
  const auto state_of = [&](const char* id) {
    const fabric::Topology& topology = cluster.state().topology;
    return topology.link(*topology.FindLink(id)).state;
  };
  ASSERT_TRUE(cluster.RollBack(std::nullopt));  // the last change
  EXPECT_EQ(state_of("leaf0--spine0"), fabric::LinkState::kDown);
  EXPECT_EQ(state_of("leaf0--spine1"), fabric::LinkState::kUp);
  ASSERT_TRUE(cluster.RollBack(2));
  EXPECT_EQ(state_of("leaf0--spine1"), fabric::LinkState::kDown);
  ASSERT_TRUE(cluster.RollBack(0));
  EXPECT_EQ(state_of("leaf0--spine0"), fabric::LinkState::kUp);
  EXPECT_EQ(cluster.disk.intents(), Intents{});
  EXPECT_EQ(cluster.disk.revision, 5U);
  EXPECT_EQ(cluster.state().epoch, epoch);
  EXPECT_EQ(cluster.RollBack(77).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(cluster.disk.audit.back().result, AuditResult::kRefused);
}

TEST(Operations, KeepsItsEventsOverARestart) {
  Cluster cluster(kShape);
  ASSERT_TRUE(cluster.ChangeLink("leaf0--spine0", IntentAction::kFail));
  cluster.Advance(1s);
  const std::uint64_t last = cluster.state().history.last_sequence();
  cluster.RestartController();
  const auto events = cluster.state().history.Since(0, 100);
  const auto failed = std::find_if(events.begin(), events.end(),
                                   [](const auto& event) { return event.kind == "link_failed"; });
  ASSERT_NE(failed, events.end());
  EXPECT_GT(cluster.state().history.last_sequence(), last);
}

}  // namespace
}  // namespace espalier::controller
