// Descriptions of moved flows for operators.
#include "controller/placement/loads/flow_moves.h"

#include <gtest/gtest.h>

#include <vector>

#include "common/fabric/builders.h"

namespace espalier::controller {
namespace {

class Moves : public testing::Test {
 protected:
  Moves() : slot_(Open(1)) {}

  FlowSlot Open(std::uint64_t local) {
    Flow flow;
    flow.agent = state_.agents.Intern("h0");
    flow.local = wire::LocalFlowId(local);
    flow.job = state_.flows.JobIndex("train", flow.agent);
    flow.source_leaf = *state_.topology.FindNode("leaf0");
    flow.destination_leaf = *state_.topology.FindNode("leaf1");
    flow.subflows.resize(2);
    const FlowSlot slot = state_.flows.Open(std::move(flow));
    state_.decisions.AddSubflows(slot);
    return slot;
  }
  void Close() {
    for (std::uint32_t i = 0; i < 2; ++i) state_.decisions.Remove(slot_, i);
    state_.flows.Close(slot_);
  }
  void Place(std::int32_t first, std::int32_t second) {
    state_.decisions.Place(slot_, 0, first);
    state_.decisions.Place(slot_, 1, second);
  }
  // All its bytes in flight.
  void InFlight(std::uint64_t bytes) {
    const wire::FlowProgress progress{.id = wire::LocalFlowId(1), .outstanding_bytes = bytes};
    state_.flows.TakeProgress(state_.flows.At(slot_).agent, std::vector{progress}, TimePoint{});
  }
  Rerouted MoveTo(std::int32_t first, std::int32_t second) {
    Rerouted moved = BeginMove(state_, slot_);
    Place(first, second);
    EndMove(state_, moved);
    return moved;
  }
  FlowMove Told(const Rerouted& moved) const {
    return Describe(state_, std::vector{moved}).front();
  }

  State state_{*fabric::Topology::Build(
      *fabric::BuildLeafSpine({.spines = 3, .leaves = 2, .hosts_per_leaf = 1}))};
  FlowSlot slot_;
};

TEST_F(Moves, NameTheFlowItsJobAndTheSwitchesBeforeAndAfter) {
  Place(0, 1);
  InFlight(77);
  const FlowMove move = Told(MoveTo(2, 1));
  EXPECT_EQ(move.flow, "h0:1");
  EXPECT_EQ(move.job, "train");
  EXPECT_EQ(move.from, "spine0+spine1");
  EXPECT_EQ(move.to, "spine2+spine1");
  EXPECT_EQ(move.bytes_in_flight, 77);
}

TEST_F(Moves, FlowsWithoutAPathAreOnEcmp) {
  EXPECT_EQ(Told(MoveTo(0, 0)).from, "");
  EXPECT_EQ(Told(MoveTo(kNoPath, kNoPath)).to, "");
  EXPECT_EQ(Told(MoveTo(1, kNoPath)).to, "spine1");
}

TEST_F(Moves, CanBeDescribedAfterTheFlowHasEnded) {
  Place(0, 1);
  InFlight(77);
  const Rerouted moved = MoveTo(2, 2);
  EXPECT_TRUE(IsStillOpen(state_, moved));
  Close();
  EXPECT_FALSE(IsStillOpen(state_, moved));
  EXPECT_EQ(Told(moved).to, "spine2+spine2");
  EXPECT_EQ(Told(moved).bytes_in_flight, 0);
}

TEST_F(Moves, AnotherFlowInTheSamePlaceIsNotTheOneThatMoved) {
  Place(0, 1);
  const Rerouted moved = MoveTo(2, 2);
  Close();
  ASSERT_EQ(Open(2), slot_);
  EXPECT_FALSE(IsStillOpen(state_, moved));
  EXPECT_EQ(Told(moved).flow, "h0:1");
}

TEST_F(Moves, DescribeAFlowOnItsPresentPath) {
  Place(1, 2);
  const FlowMove move = DescribeMove(state_, slot_, "spine0");
  EXPECT_EQ(move.from, "spine0");
  EXPECT_EQ(move.to, "spine1+spine2");
}

}  // namespace
}  // namespace espalier::controller
