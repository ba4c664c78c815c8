// Queries about flows that combine several parts of the state.
#include "controller/state/state.h"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "common/fabric/builders.h"
#include "controller/routing/assignment.h"

namespace espalier::controller {
namespace {

class StateOfFlows : public testing::Test {
 protected:
  StateOfFlows() {
    Flow flow;
    flow.agent = state_.agents.Intern("h0");
    flow.local = wire::LocalFlowId(17);
    flow.source_leaf = *state_.topology.FindNode("leaf0");
    flow.destination_leaf = *state_.topology.FindNode("leaf1");
    flow.subflows.resize(2);
    slot_ = state_.flows.Open(std::move(flow));
    state_.decisions.AddSubflows(slot_);
  }
  const Flow& flow() { return state_.flows.At(slot_); }
  void Place(std::uint32_t subflow, std::int32_t path) {
    state_.decisions.Place(slot_, subflow, path);
  }
  std::int64_t CountOn(const std::string& link, bool forward) const {
    return state_
        .CountPaths()[fabric::DirectedLink{*state_.topology.FindLink(link), forward}.Index()];
  }

  State state_{*fabric::Topology::Build(
      *fabric::BuildLeafSpine({.spines = 3, .leaves = 2, .hosts_per_leaf = 1}))};
  FlowSlot slot_{0};
};

TEST_F(StateOfFlows, NamesThem) { EXPECT_EQ(state_.FlowName(flow()), "h0:17"); }

TEST_F(StateOfFlows, NamesTheSwitchesOfTheirPaths) {
  EXPECT_EQ(state_.Via(flow()), "");
  Place(1, 2);
  EXPECT_EQ(state_.Via(flow()), "spine2");
  Place(0, 0);
  EXPECT_EQ(state_.Via(flow()), "spine0+spine2");
  EXPECT_EQ(state_.Via(flow(), std::array{1, 1}), "spine1+spine1");
}

TEST_F(StateOfFlows, KnowsWhichHaveAllTheirPaths) {
  Place(0, 0);
  EXPECT_FALSE(state_.HasPaths(flow()));
  Place(1, 1);
  EXPECT_TRUE(state_.HasPaths(flow()));
  state_.decisions.Release(slot_);
  EXPECT_FALSE(state_.HasPaths(flow()));
}

TEST_F(StateOfFlows, CountsPathsOfEachDirectionOfALink) {
  Place(0, 1);
  Place(1, 1);
  EXPECT_EQ(CountOn("leaf0--spine1", true), 2);
  EXPECT_EQ(CountOn("leaf1--spine1", false), 2);
  EXPECT_EQ(CountOn("leaf0--spine1", false), 0);
  EXPECT_EQ(CountOn("leaf0--spine0", true), 0);
}

TEST_F(StateOfFlows, CountsEdgesOfForestsWithThem) {
  Place(0, 1);
  const EdgeName edge =
      state_.edges.Open(flow().agent, {.source_leaf = flow().source_leaf,
                                       .destination_leaf = flow().destination_leaf,
                                       .path = fabric::PathIndex(1),
                                       .load = kLoadUnit / 2});
  EXPECT_EQ(CountOn("leaf0--spine1", true), 2);
  EXPECT_EQ(state_.CountFlowsOf(flow().agent), 2U);
  state_.edges.Close(edge);
  EXPECT_EQ(CountOn("leaf0--spine1", true), 1);
  EXPECT_EQ(state_.CountFlowsOf(flow().agent), 1U);
}

}  // namespace
}  // namespace espalier::controller
