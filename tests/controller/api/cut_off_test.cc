// Actions that cut flows off say so, in their dry runs too, and the status never sounds better.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "controller/api/views/views.h"
#include "controller/state/fabric_health.h"
#include "tests/controller/four_flows.h"

namespace espalier::controller {
namespace {

using fabric::LinkState;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class CutOffTest : public testing::Test {
 protected:
  CutOffTest() {
    cluster_.ConnectAll();
    OpenFourFlows(cluster_);
  }
  FabricHealth Health() { return HealthOf(cluster_.state(), CountReach(cluster_.state()), 0, {}); }

  Cluster cluster_{kFourLeaves};
};

TEST_F(CutOffTest, AHealthyFabricIsOk) {
  EXPECT_EQ(HealthView(cluster_.controller()), "ok");
  EXPECT_THAT(Health().Reasons(), IsEmpty());
}

TEST_F(CutOffTest, TheLastSpineIsNotDrainedInSilence) {
  for (const char* spine : {"spine0", "spine1", "spine2"}) {
    const auto drained = cluster_.ChangeNode(spine, IntentAction::kDrain);
    ASSERT_TRUE(drained);
    EXPECT_EQ(drained->after.reach.without_path, 0);
  }
  for (const bool dry_run : {true, false}) {
    const auto outcome = cluster_.ChangeNode("spine3", IntentAction::kDrain, {.dry_run = dry_run});
    ASSERT_TRUE(outcome);
    EXPECT_EQ(outcome->before.reach.CutOff(), 0);
    EXPECT_EQ(outcome->after.reach.without_path, 4);
    EXPECT_FALSE(outcome->after.IsOptimal());
    EXPECT_THAT(OutcomeView(*outcome, dry_run), HasSubstr("\"without_path\":4"));
  }
  EXPECT_EQ(HealthView(cluster_.controller()), "failing");
  EXPECT_THAT(Health().Reasons(), ElementsAre("4 flows have no usable path"));
  EXPECT_THAT(StatusView(cluster_.controller()), HasSubstr("\"optimal\":false"));
  cluster_.controller().RefreshMetrics();
  EXPECT_THAT(cluster_.MetricsText(), HasSubstr("espalier_controller_health 2"));
  EXPECT_THAT(cluster_.MetricsText(), HasSubstr("espalier_controller_flows_without_path 4"));
  // The return is recorded, too.
  const auto back = cluster_.ChangeNode("spine3", IntentAction::kUndrain, {.dry_run = true});
  ASSERT_TRUE(back);
  EXPECT_EQ(back->before.reach.without_path, 4);
  EXPECT_EQ(back->after.reach.without_path, 0);
  ASSERT_TRUE(cluster_.ChangeNode("spine3", IntentAction::kUndrain));
  cluster_.Settle();
  EXPECT_EQ(HealthView(cluster_.controller()), "ok");
}

TEST_F(CutOffTest, AFailedNicOrHostCutsItsFlowsOff) {
  for (const bool dry_run : {true, false}) {
    const auto outcome =
        cluster_.ChangeLink("h0--leaf0", IntentAction::kFail, {.dry_run = dry_run});
    ASSERT_TRUE(outcome);
    EXPECT_EQ(outcome->before.reach.on_dead_link, 0);
    EXPECT_EQ(outcome->after.reach.on_dead_link, 1);
    EXPECT_FALSE(outcome->after.IsOptimal());
  }
  EXPECT_THAT(Health().Reasons(),
              ElementsAre("1 flow is on a link that is down", "1 link is down"));
  const auto host = cluster_.ChangeNode("h5", IntentAction::kFail);  // the end of another flow
  ASSERT_TRUE(host);
  EXPECT_EQ(host->before.reach.on_dead_link, 1);
  EXPECT_EQ(host->after.reach.on_dead_link, 2);
  EXPECT_EQ(Health().word(), FabricHealth::Word::kFailing);
}

TEST_F(CutOffTest, ADrainedNicKeepsItsFlowsAndSaysSo) {
  const auto outcome = cluster_.ChangeLink("h0--leaf0", IntentAction::kDrain);
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->after.reach.on_drained_link, 1);
  EXPECT_EQ(outcome->after.reach.CutOff(), 0);
  EXPECT_EQ(HealthView(cluster_.controller()), "degraded");
}

TEST_F(CutOffTest, MissingAgentsDegrade) {
  Cluster cluster(kFourLeaves);
  cluster.Connect(3);
  const FabricHealth health = HealthOf(cluster.state(), CountReach(cluster.state()), 2,
                                       {"NIC h3 or its host loses packets"});
  EXPECT_EQ(health.hosts, 16);
  EXPECT_THAT(
      health.Reasons(),
      ElementsAre(
          "2 links are found dead or lossy and stay in use until an operator fails or drains "
          "them",
          "NIC h3 or its host loses packets", "15 of 16 hosts have no agent"));
  EXPECT_EQ(health.word(), FabricHealth::Word::kDegraded);
}

// A dry run finds as many flows without a path as the action then leaves.
TEST_F(CutOffTest, DryRunsCountWhatActionsDo) {
  std::mt19937 random(7);  // NOLINT(cert-msc51-cpp): repeatable
  const auto any = [&](int count) {
    return static_cast<int>(random() % static_cast<unsigned>(count));
  };
  int cut_off = 0;
  for (int step = 0; step < 120; ++step) {
    const bool is_node = any(3) == 0;
    const std::string id =
        is_node ? (any(4) == 0 ? "h" + std::to_string(any(8)) : "spine" + std::to_string(any(4)))
                : "leaf" + std::to_string(any(2)) + "--spine" + std::to_string(any(4));
    const auto action = static_cast<IntentAction>(any(4));
    const auto act = [&](bool dry_run) {
      const OperatorRequest request{.dry_run = dry_run};
      return is_node ? cluster_.ChangeNode(id, action, request)
                     : cluster_.ChangeLink(id, action, request);
    };
    const auto would = act(true);
    const auto done = act(false);
    ASSERT_EQ(would.has_value(), done.has_value());
    if (!done) continue;
    SCOPED_TRACE(id);
    EXPECT_EQ(would->before.reach.without_path, done->before.reach.without_path);
    EXPECT_EQ(would->after.reach.without_path, done->after.reach.without_path);
    EXPECT_EQ(would->before.reach.CutOff(), done->before.reach.CutOff());
    cut_off += done->after.reach.without_path > 0 ? 1 : 0;
    cluster_.Settle();
  }
  EXPECT_GT(cut_off, 5);
}

TEST_F(CutOffTest, ActionsTellTheIntentsThatTheyChange) {
  const auto drained = cluster_.ChangeNode("spine3", IntentAction::kDrain, {.actor = "ada"});
  ASSERT_TRUE(drained);
  ASSERT_EQ(drained->intents.size(), 1U);
  EXPECT_EQ(drained->intents[0].kind, IntentChange::Kind::kAdded);
  EXPECT_EQ(drained->intents[0].what, "drained node");
  EXPECT_EQ(drained->intents[0].intent.actor, "ada");
  for (const bool dry_run : {true, false}) {
    const auto back = cluster_.RollBack(std::nullopt, {.dry_run = dry_run});
    ASSERT_TRUE(back);
    ASSERT_EQ(back->intents.size(), 1U);
    EXPECT_EQ(back->intents[0].kind, IntentChange::Kind::kRemoved);
    EXPECT_EQ(back->intents[0].id, "spine3");
  }
}

// A second rollback would take the first one back.
TEST_F(CutOffTest, ASecondRollbackNeedsItsRevision) {
  ASSERT_TRUE(cluster_.ChangeNode("spine3", IntentAction::kDrain));
  ASSERT_TRUE(cluster_.ChangeNode("spine2", IntentAction::kDrain));
  ASSERT_TRUE(cluster_.RollBack(std::nullopt));
  const auto again = cluster_.RollBack(std::nullopt);
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, ErrorCode::kFailedPrecondition);
  EXPECT_THAT(again.error().message,
              HasSubstr("the last change was a rollback itself, to revision 1"));
  EXPECT_EQ(cluster_.state().intents.drained_nodes.size(), 1U);
  ASSERT_TRUE(cluster_.RollBack(0));
  EXPECT_TRUE(cluster_.state().intents.drained_nodes.empty());
}

}  // namespace
}  // namespace espalier::controller
