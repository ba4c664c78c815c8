// The registry of agents.
#include "controller/state/agent_registry.h"

#include <gtest/gtest.h>

#include <optional>

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
  agents.Disconnect(id);  // a second time: no effect
}

TEST(AgentRegistry, ANewConnectionTakesThePlaceOfTheOldOne) {
  AgentRegistry agents;
  const AgentId id = agents.Intern("h0");
  agents.Connect(id, kPeer);
  agents.Connect(id, kOther);
  EXPECT_EQ(agents.FindByPeer(kPeer), std::nullopt);
  EXPECT_EQ(agents.FindByPeer(kOther), id);
}

TEST(Agent, HasTheFeaturesThatItNames) {
  Agent agent;
  agent.features = {"collective", "verbs"};
  EXPECT_TRUE(agent.Has("verbs"));
  EXPECT_FALSE(agent.Has("verb"));
}

}  // namespace
}  // namespace espalier::controller
