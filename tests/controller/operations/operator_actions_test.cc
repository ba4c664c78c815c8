// Tests operators' actions on a whole controller, and their traces in the store.
#include "controller/operations/operator_actions.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>

#include "tests/controller/four_flows.h"

namespace espalier::controller {
namespace {

using namespace std::chrono_literals;

TEST(OperatorActions, RunsWhileAnActionIsMadeDurableAndTakesTheNextInOrder) {
  Cluster cluster(kFourLeaves);
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
  controller.actions().ChangeLink("leaf1--spine2", IntentAction::kFail, {}, note("fail"));
  controller.actions().ChangeLink("leaf1--spine2", IntentAction::kFail, {}, note("again"));
  controller.actions().ChangeLink("leaf1--spine2", IntentAction::kRestore, {}, note("restore"));
  EXPECT_TRUE(answers.empty());
  EXPECT_EQ(cluster.state().topology.version(), 1);  // nothing moves before it is durable
  cluster.Settle();
  EXPECT_EQ(answers, (std::vector<std::string>{"fail", "again already exists", "restore"}));
  EXPECT_EQ(cluster.state().topology.version(), 3);
  ASSERT_EQ(cluster.disk.audit.size(), 3U);
  EXPECT_EQ(cluster.disk.audit[0].moves.size(), 1U);
  EXPECT_EQ(cluster.disk.audit[1].result, AuditResult::kRefused);
  for (int i = 0; i < 80; ++i) {
    controller.actions().ChangeLink("leaf1--spine2", IntentAction::kFail, {}, note("many"));
  }
  EXPECT_EQ(answers.back(), "many resource exhausted");
  cluster.Settle();
}

TEST(OperatorActions, EndsADrainAtItsEndTime) {
  WallTime now{std::chrono::hours(1'000)};
  Cluster cluster(kFourLeaves, {.wall_clock = [&now] { return now; }});
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
  // A rollback to an earlier revision does not bring back an intent that has ended.
  EXPECT_EQ(cluster.RollBack(1).error().code, ErrorCode::kAlreadyExists);
}

TEST(OperatorActions, AClockJumpEndsNoDrainEarly) {
  WallTime now{std::chrono::hours(1'000)};
  Cluster cluster(kFourLeaves, {.wall_clock = [&now] { return now; }});
  const auto is_drained = [&] { return !cluster.state().intents.drained_nodes.empty(); };
  ASSERT_TRUE(cluster.ChangeNode("spine0", IntentAction::kDrain, {.until = now + 20s}).has_value());
  cluster.Advance(2s);
  now += std::chrono::hours(24 * 365);
  cluster.Advance(10s);
  EXPECT_TRUE(is_drained());
  now -= std::chrono::hours(24 * 700);
  cluster.Advance(15s);
  EXPECT_FALSE(is_drained()) << "nor late";
}

TEST(OperatorActions, RollsBackToEarlierIntents) {
  Cluster cluster(kFourLeaves);
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

TEST(OperatorActions, KeepsItsEventsOverARestart) {
  Cluster cluster(kFourLeaves);
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

// Three jobs of one flow each leave a leaf with two spines, so that one job has a link to itself.
class Weights : public testing::Test {
 protected:
  Weights() {
    cluster_.ConnectAll();
    for (int i = 0; i < 3; ++i) {
      cluster_.Open(i, {{.id = 1, .to = 3 + i, .job = std::string(1, static_cast<char>('A' + i))}});
    }
    cluster_.Settle();
  }
  bool IsAlone(int host) {
    const auto spine = [&](int i) { return cluster_.AppliedSpine(i, 1, 3 + i); };
    for (int i = 0; i < 3; ++i) {
      if (i != host && spine(i) == spine(host)) return false;
    }
    return true;
  }
  // The first job that shares its link.
  std::string Sharer() {
    for (int i = 0; i < 3; ++i) {
      if (!IsAlone(i)) return std::string(1, static_cast<char>('A' + i));
    }
    return "";
  }

  WallTime now_{std::chrono::hours(1'000)};
  Cluster cluster_{{.spines = 2, .leaves = 2, .hosts_per_leaf = 3},
                   {.wall_clock = [this] { return now_; }}};
};

TEST_F(Weights, MoveFlowsSoThatTheHeavierJobIsFaster) {
  const std::string job = Sharer();
  const int host = job[0] - 'A';
  const auto told = cluster_.ChangeWeight(job, 2, {.dry_run = true});
  ASSERT_TRUE(told) << told.error().message;
  EXPECT_FALSE(told->moves.empty());
  EXPECT_TRUE(cluster_.state().intents.weights.empty());
  EXPECT_FALSE(IsAlone(host));

  const auto done = cluster_.ChangeWeight(job, 2, {.actor = "ada", .reason = "late"});
  ASSERT_TRUE(done) << done.error().message;
  ASSERT_EQ(done->moves.size(), told->moves.size());
  for (std::size_t i = 0; i < done->moves.size(); ++i) {
    EXPECT_EQ(done->moves[i].flow, told->moves[i].flow);
    EXPECT_EQ(done->moves[i].to, told->moves[i].to);
  }
  EXPECT_TRUE(IsAlone(host));
  EXPECT_EQ(cluster_.disk.audit.back().action, "set weight");
  EXPECT_EQ(cluster_.disk.audit.back().target, job + "=2");
  EXPECT_EQ(cluster_.disk.audit.back().moves.size(), done->moves.size());
  EXPECT_TRUE(cluster_.Recompute()->moves.empty());  // it counts there too

  EXPECT_EQ(cluster_.ChangeWeight(job, 2).error().code, ErrorCode::kAlreadyExists);
  cluster_.RestartController();
  EXPECT_EQ(cluster_.state().intents.weights.at(job).value, IntentValue(JobWeight{2}));
  EXPECT_EQ(cluster_.state().intents.weights.at(job).reason, "late");
  ASSERT_TRUE(cluster_.RollBack(0));
  EXPECT_TRUE(cluster_.state().intents.weights.empty());
}

// The final path of each flow that moves.
std::map<std::string, std::string> Targets(const ActionOutcome& outcome) {
  std::map<std::string, std::string> targets;
  for (const FlowMove& move : outcome.moves) targets[move.flow] = move.to;
  return targets;
}

TEST_F(Weights, DryRunsOfRollbacksReportTheMovesOfLinksAndOfWeights) {
  ASSERT_TRUE(cluster_.ChangeWeight("C", 2));
  const std::uint64_t then = cluster_.state().revision;
  ASSERT_TRUE(cluster_.ChangeNode("spine0", IntentAction::kDrain));
  ASSERT_TRUE(cluster_.ChangeWeight("C", 1));
  cluster_.Settle();
  EXPECT_FALSE(IsAlone(2));

  const auto told = cluster_.RollBack(then, {.dry_run = true});
  ASSERT_TRUE(told) << told.error().message;
  const auto done = cluster_.RollBack(then);
  ASSERT_TRUE(done) << done.error().message;
  cluster_.Settle();
  EXPECT_TRUE(IsAlone(2));  // the spine that came back moves nobody: the weight does
  EXPECT_FALSE(told->moves.empty());
  EXPECT_EQ(Targets(*told), Targets(*done));
  EXPECT_EQ(told->before.max_load, done->before.max_load);
  EXPECT_EQ(told->after.max_load, done->after.max_load);
  EXPECT_EQ(told->after.lower_bound, done->after.lower_bound);
}

TEST_F(Weights, EndAndCanBeRemoved) {
  ASSERT_TRUE(cluster_.ChangeWeight("C", 3, {.until = now_ + 10s}));
  ASSERT_TRUE(cluster_.ChangeWeight("C", 3, {.until = now_ + 20s}));  // longer
  cluster_.Advance(15s);
  EXPECT_EQ(cluster_.state().intents.weights.count("C"), 1U);
  cluster_.Advance(7s);
  EXPECT_TRUE(cluster_.disk.intents().weights.empty());
  ASSERT_TRUE(cluster_.ChangeWeight("yet to come", 1'000));
  ASSERT_TRUE(cluster_.ChangeWeight("yet to come", 1));
  EXPECT_TRUE(cluster_.state().intents.weights.empty());
  EXPECT_EQ(cluster_.ChangeWeight("A", 1).error().code, ErrorCode::kAlreadyExists);
}

TEST_F(Weights, RefuseInvalidValues) {
  const auto refusal = [&](const std::string& job, std::uint64_t weight, OperatorRequest request) {
    return cluster_.ChangeWeight(job, weight, std::move(request)).error().code;
  };
  EXPECT_EQ(refusal("A", 0, {}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(refusal("A", 1'001, {}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(refusal("", 2, {}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(refusal("A", 2, {.until = now_}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(refusal("A", 1, {.until = now_ + 1h}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(cluster_.disk.intents(), Intents{});
  EXPECT_EQ(cluster_.disk.audit.size(), 5U);
}

TEST(Policies, OverrideTheConfigurationUntilTheyAreReset) {
  Cluster cluster(kFourLeaves, {.moves_per_start = 7});
  const auto& options = cluster.controller().settings().now();
  const auto told = cluster.ChangePolicy("moves_per_start", "0", {.dry_run = true});
  ASSERT_TRUE(told) << told.error().message;
  EXPECT_TRUE(told->moves.empty());
  EXPECT_EQ(options.moves_per_start, 7U);
  ASSERT_TRUE(cluster.ChangePolicy("moves_per_start", "0"));
  ASSERT_TRUE(cluster.ChangePolicy("algorithm", "greedy"));
  EXPECT_EQ(options.moves_per_start, 0U);
  EXPECT_EQ(options.algorithm, Algorithm::kGreedy);
  // A reloaded configuration applies where no policy is set.
  cluster.controller().ApplyConfiguration({.moves_per_start = 9, .plan_ahead = false}, "");
  EXPECT_EQ(options.moves_per_start, 0U);
  EXPECT_FALSE(options.plan_ahead);
  ASSERT_TRUE(cluster.RollBack(1));
  EXPECT_EQ(options.algorithm, Algorithm::kOptimal);
  ASSERT_TRUE(cluster.ChangePolicy("moves_per_start", std::nullopt));
  EXPECT_EQ(options.moves_per_start, 9U);
  EXPECT_EQ(cluster.ChangePolicy("moves_per_start", std::nullopt).error().code,
            ErrorCode::kAlreadyExists);

  ASSERT_TRUE(cluster.ChangePolicy("moved_bytes_per_start", "65536"));
  cluster.RestartController();
  EXPECT_EQ(cluster.controller().settings().now().moved_bytes_per_start, 65'536);
  EXPECT_EQ(cluster.controller().settings().now().moves_per_start, 7U);
}

TEST(Policies, LimitRatesWhileTheyHold) {
  Cluster cluster({.spines = 2, .leaves = 2, .hosts_per_leaf = 3});
  cluster.ConnectAll();
  cluster.Open(0, {{.id = 1, .to = 3}});
  const auto limit = [&] {
    cluster.Advance(1s);
    return cluster.host(0).sets.at(1).max_rate_bps;
  };
  EXPECT_EQ(limit(), 0U);
  for (int round = 0; round < 2; ++round) {
    ASSERT_TRUE(cluster.ChangePolicy("limit_rates", "true"));
    EXPECT_EQ(limit(), 100'000'000'000U);
    ASSERT_TRUE(cluster.ChangePolicy("limit_rates", std::nullopt));
    EXPECT_EQ(limit(), 0U);
  }
}

TEST(Policies, RefuseUnknownNamesAndValues) {
  Cluster cluster(kFourLeaves);
  for (const auto& [name, value, code] :
       std::vector<std::tuple<std::string, std::optional<std::string>, ErrorCode>>{
           {"algorithm", "best", ErrorCode::kInvalidArgument},
           {"algorithm", "", ErrorCode::kInvalidArgument},
           {"moves_per_start", "-1", ErrorCode::kInvalidArgument},
           {"moves_per_start", "4 ", ErrorCode::kInvalidArgument},
           {"moves_per_start", "99999999999", ErrorCode::kInvalidArgument},
           {"moved_bytes_per_start", "-1", ErrorCode::kInvalidArgument},
           {"limit_rates", "yes", ErrorCode::kInvalidArgument},
           {"plan_ahead", "1", ErrorCode::kInvalidArgument},
           {"listen", "tcp://*:1", ErrorCode::kNotFound},
           {"listen", std::nullopt, ErrorCode::kNotFound},
           {"algorithm", std::nullopt, ErrorCode::kAlreadyExists}}) {
    const auto refused = cluster.ChangePolicy(name, value);
    ASSERT_FALSE(refused) << name << "=" << value.value_or("(reset)");
    EXPECT_EQ(refused.error().code, code) << refused.error().message;
  }
  EXPECT_EQ(cluster.disk.intents(), Intents{});
}

}  // namespace
}  // namespace espalier::controller
