// Who is connected as which agent, and who is to be told something.
#include "controller/state/agent_registry.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace espalier::controller {
namespace {

constexpr PeerId kPeer{7};
constexpr PeerId kOther{8};

TEST(AgentRegistry, AKnownNameKeepsItsNumber) {
  AgentRegistry agents;
  const AgentId first = agents.Intern("h0");
  const AgentId second = agents.Intern("h1");
  EXPECT_NE(first, second);
  EXPECT_EQ(agents.Intern("h0"), first);
  EXPECT_EQ(agents.size(), 2U);
  EXPECT_EQ(agents.FindByName("h1"), second);
  EXPECT_EQ(agents.FindByName("h2"), std::nullopt);
  EXPECT_EQ(agents.At(first).name, "h0");
}

TEST(AgentRegistry, FindsAnAgentByItsPeerWhileItIsConnected) {
  AgentRegistry agents;
  const AgentId id = agents.Intern("h0");
  EXPECT_EQ(agents.FindByPeer(kPeer), std::nullopt);
  agents.Connect(id, kPeer);
  EXPECT_EQ(agents.FindByPeer(kPeer), id);
  agents.Disconnect(id);
  EXPECT_EQ(agents.FindByPeer(kPeer), std::nullopt);
  EXPECT_EQ(agents.At(id).peer, std::nullopt);
  agents.Disconnect(id);  // once more: nothing
}

TEST(AgentRegistry, ANewConnectionTakesThePlaceOfTheOldOne) {
  AgentRegistry agents;
  const AgentId id = agents.Intern("h0");
  agents.Connect(id, kPeer);
  agents.Connect(id, kOther);
  EXPECT_EQ(agents.FindByPeer(kPeer), std::nullopt);
  EXPECT_EQ(agents.FindByPeer(kOther), id);
}

TEST(AgentRegistry, QueuesPushesOnceAndInOrder) {
  AgentRegistry agents;
  const AgentId first = agents.Intern("h0");
  const AgentId second = agents.Intern("h1");
  agents.At(second).needs_full = false;
  agents.QueuePush(second);
  agents.QueuePush(first);
  agents.QueuePush(second);
  EXPECT_EQ(agents.to_push(), (std::set{first, second}));
  EXPECT_FALSE(agents.At(second).needs_full);
  agents.QueueFullPush(second);
  EXPECT_TRUE(agents.At(second).needs_full);
}

TEST(AgentRegistry, PlansOfRanksAreToBeToldWhenTheyComeAndWhenTheyEnd) {
  AgentRegistry agents;
  const AgentId id = agents.Intern("h0");
  wire::RankPlan plan;
  plan.job = "train";
  plan.rank = 3;
  const RankOfJob rank("train", 3);
  agents.EndPlan(id, rank);  // there is none
  EXPECT_TRUE(agents.to_push().empty());
  EXPECT_TRUE(agents.At(id).dirty_plans.empty());

  agents.SetPlan(id, plan);
  EXPECT_EQ(agents.At(id).plans.at(rank).plan->rank, 3U);
  EXPECT_EQ(agents.At(id).plans.at(rank).generation, 0U);
  EXPECT_EQ(agents.At(id).dirty_plans, std::set{rank});
  EXPECT_EQ(agents.to_push(), std::set{id});

  agents.At(id).dirty_plans.clear();
  agents.to_push().clear();
  agents.EndPlan(id, rank);
  EXPECT_TRUE(agents.At(id).plans.empty());
  EXPECT_EQ(agents.At(id).dirty_plans, std::set{rank});
  EXPECT_EQ(agents.to_push(), std::set{id});
}

// A plan that takes the place of another is yet to be told, whatever was told of that.
TEST(AgentRegistry, AnotherPlanOfARankIsUntold) {
  AgentRegistry agents;
  const AgentId id = agents.Intern("h0");
  wire::RankPlan plan;
  plan.job = "train";
  agents.SetPlan(id, plan);
  agents.At(id).plans.at({"train", 0}).generation = 5;
  agents.SetPlan(id, plan);
  EXPECT_EQ(agents.At(id).plans.at({"train", 0}).generation, 0U);
}

TEST(Agent, HasTheFeaturesThatItNames) {
  Agent agent;
  agent.features = {"collective", "verbs"};
  EXPECT_TRUE(agent.Has("verbs"));
  EXPECT_FALSE(agent.Has("verb"));
}

}  // namespace
}  // namespace espalier::controller
