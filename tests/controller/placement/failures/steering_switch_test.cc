// Tests on a whole controller that flows lose and get back their ports as operators switch
// steering.
#include "controller/placement/failures/steering_switch.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "controller/state/fabric_health.h"
#include "tests/controller/four_flows.h"

namespace espalier::controller {
namespace {

using namespace std::chrono_literals;

class Steering : public testing::Test {
 protected:
  Steering() {
    cluster_.ConnectAll();
    for (int i = 0; i < 4; ++i) {
      cluster_.Open(i, {{.id = 1,
                         .to = 4 + i,
                         .job = "j" + std::to_string(i),
                         .port = static_cast<std::uint16_t>(50'000 + i)}});
    }
    cluster_.Advance(1s);
  }
  FlowStatus StatusOf(int host) { return cluster_.FlowOf(host, 1).status; }
  int CountSteered() {
    int steered = 0;
    for (int i = 0; i < cluster_.hosts(); ++i) {
      steered += cluster_.host(i).ports.empty() ? 0 : 1;
    }
    return steered;
  }
  std::vector<std::string> Reasons() {
    return HealthOf(cluster_.state(), CountReach(cluster_.state()), 0, {}).Reasons();
  }
  Result<ActionOutcome> Change(bool on, std::vector<std::string> hosts = {},
                               std::vector<std::string> jobs = {},
                               std::optional<std::uint64_t> percent = {},
                               const OperatorRequest& request = {}) {
    return cluster_.ChangeSteering(std::move(hosts), std::move(jobs), percent, on, request);
  }

  Cluster cluster_{kFourLeaves};
};

TEST_F(Steering, ReturnsFlowsToTheirOwnPortsAndBack) {
  const int before = CountSteered();
  ASSERT_GT(before, 1);
  const auto tried = Change(false, {}, {}, {}, {.dry_run = true});
  ASSERT_TRUE(tried.has_value()) << tried.error().message;
  EXPECT_EQ(tried->moves.size(), static_cast<std::size_t>(before));
  EXPECT_EQ(CountSteered(), before) << "a dry run changes nothing";
  const auto off = Change(false);
  ASSERT_TRUE(off.has_value()) << off.error().message;
  ASSERT_EQ(off->moves.size(), tried->moves.size());
  for (std::size_t i = 0; i < off->moves.size(); ++i) {
    EXPECT_EQ(off->moves[i].flow, tried->moves[i].flow);
    EXPECT_EQ(off->moves[i].from, tried->moves[i].from);
    EXPECT_EQ(off->moves[i].to, "");
  }
  EXPECT_EQ(off->before.max_load, tried->before.max_load);
  EXPECT_EQ(CountSteered(), 0);
  EXPECT_EQ(StatusOf(0), FlowStatus::kUnsteered);
  EXPECT_EQ(Reasons(), std::vector<std::string>{"steering is off: every flow takes plain ECMP"});
  EXPECT_EQ(cluster_.host(0).pushes.back().unsteered.size(), 1U) << "the agent is told why";
  // A flow that starts meanwhile gets no path, and neither does a link change give it one.
  cluster_.Open(1, {{.id = 9, .to = 6}});
  cluster_.Settle();
  EXPECT_EQ(cluster_.FlowOf(1, 9).status, FlowStatus::kUnsteered);
  ASSERT_TRUE(cluster_.ChangeLink("leaf0--spine0", IntentAction::kFail));
  ASSERT_TRUE(cluster_.ChangeLink("leaf0--spine0", IntentAction::kRestore));
  EXPECT_EQ(CountSteered(), 0);
  const auto would = Change(true, {}, {}, {}, {.dry_run = true});
  const auto on = Change(true);
  ASSERT_TRUE(on.has_value()) << on.error().message;
  ASSERT_TRUE(would.has_value());
  ASSERT_EQ(on->moves.size(), would->moves.size());
  for (std::size_t i = 0; i < on->moves.size(); ++i) EXPECT_EQ(on->moves[i].to, would->moves[i].to);
  EXPECT_EQ(on->after.max_load, would->after.max_load);
  cluster_.Advance(1s);
  EXPECT_GE(CountSteered(), before);
  EXPECT_TRUE(Reasons().empty());
  cluster_.state().flow_paths.CheckInvariants();
}

TEST_F(Steering, SurvivesARestartAndIsTakenBackByARollback) {
  const int before = CountSteered();
  ASSERT_TRUE(Change(false));
  cluster_.RestartController();
  cluster_.ConnectAll();
  // The agents report flows as if they were still on ports of an earlier controller.
  cluster_.Report(0, Cluster::Opening(cluster_, 0,
                                      {{.id = 1, .to = 4, .port = 50'000, .steered = true}}, true));
  cluster_.Advance(3s);
  EXPECT_EQ(StatusOf(0), FlowStatus::kUnsteered);
  EXPECT_EQ(CountSteered(), 0);
  const auto back = cluster_.RollBack(std::nullopt);
  ASSERT_TRUE(back.has_value()) << back.error().message;
  cluster_.Advance(1s);
  EXPECT_NE(StatusOf(0), FlowStatus::kUnsteered);
  EXPECT_GT(before, 0);
}

TEST_F(Steering, CountsFlowsAsLoadWhereTheyAreSeen) {
  ASSERT_TRUE(Change(false));
  cluster_.Advance(1s);
  const Flow& flow = cluster_.FlowOf(0, 1);
  ASSERT_NE(flow.own_port, 0);
  ASSERT_TRUE(cluster_.state().HasPaths(flow)) << "a probe finds the path of its own port";
  const auto path = *cluster_.state().flow_paths.PathOf(flow.subflows.front());
  EXPECT_EQ(cluster_.state().Via(flow, std::vector{path.value()}),
            "spine" + std::to_string(cluster_.SpineOf(0, 4, flow.own_port)));
  EXPECT_GT(Summarize(cluster_.state()).max_load.Value(), 0);
  // Nothing moves it, not even a recomputation.
  const auto recomputed = cluster_.Recompute();
  ASSERT_TRUE(recomputed.has_value());
  EXPECT_TRUE(recomputed->moves.empty());
}

// A port below those that Espalier gives is known from the flow that is not steered.
TEST_F(Steering, GivesNoOtherFlowThePortOfAFlowThatIsNotSteered) {
  ASSERT_TRUE(Change(false, {}, {"own"}));
  cluster_.Open(0, {{.id = 7, .to = 5, .job = "own", .port = 40'001}});
  cluster_.Advance(1s);
  const Flow& flow = cluster_.FlowOf(0, 7);
  ASSERT_TRUE(cluster_.state().path_map.Find(flow.key, 40'001).has_value());
  for (std::uint64_t id = 20; id < 36; ++id) {
    cluster_.Open(0, {{.id = id, .to = 5, .job = "others", .port = 50'900}});
    cluster_.Advance(1s);
    EXPECT_NE(cluster_.host(0).ports[id], 40'001) << id;
  }
}

TEST_F(Steering, IsForHostsAndJobs) {
  const int before = CountSteered();
  ASSERT_TRUE(Change(false, {"h0"}));
  EXPECT_EQ(StatusOf(0), FlowStatus::kUnsteered);
  EXPECT_EQ(CountSteered(), before - 1);
  const std::string job = cluster_.state().flows.JobName(cluster_.FlowOf(1, 1).job);
  ASSERT_TRUE(Change(false, {}, {job}));
  EXPECT_EQ(StatusOf(1), FlowStatus::kUnsteered);
  ASSERT_TRUE(Change(true, {}, {job}));
  EXPECT_NE(StatusOf(1), FlowStatus::kUnsteered);
  EXPECT_EQ(StatusOf(0), FlowStatus::kUnsteered) << "its host is still off";
}

TEST_F(Steering, EndsAtItsEndTimeAsItWasBefore) {
  WallTime now{std::chrono::hours(1'000)};
  Cluster cluster(kFourLeaves, {.wall_clock = [&now] { return now; }});
  cluster.ConnectAll();
  OpenFourFlows(cluster);
  ASSERT_TRUE(cluster.ChangeSteering({"h0"}, {}, {}, false, {}));
  ASSERT_TRUE(cluster.ChangeSteering({}, {}, {}, false, {.until = now + 10s}));
  EXPECT_EQ(cluster.FlowOf(1, 1).status, FlowStatus::kUnsteered);
  now += 11s;
  cluster.Advance(12s);
  EXPECT_NE(cluster.FlowOf(1, 1).status, FlowStatus::kUnsteered);
  EXPECT_EQ(cluster.FlowOf(0, 1).status, FlowStatus::kUnsteered);
}

// Two operators act at once: the second action is decided by what the first one has left.
TEST_F(Steering, DecidesTheSecondOfTwoOperatorsByWhatTheFirstHasLeft) {
  std::vector<std::string> answers;
  const auto note = [&](const Result<ActionOutcome>& outcome) {
    answers.push_back(outcome ? "done" : std::string(ErrorCodeName(outcome.error().code)));
  };
  OperatorActions& actions = cluster_.controller().actions();
  actions.ChangeSteering({}, {}, {}, false, {.actor = "anna"}, note);
  actions.ChangeSteering({}, {}, {}, false, {.actor = "bert"}, note);
  actions.ChangeSteering({"h0"}, {}, {}, true, {.actor = "bert"}, note);
  cluster_.Settle();
  EXPECT_EQ(answers, (std::vector<std::string>{"done", "already exists", "failed precondition"}));
  EXPECT_EQ(cluster_.state().intents.steering.at("all").actor, "anna");
}

}  // namespace
}  // namespace espalier::controller
