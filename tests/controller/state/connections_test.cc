#include "controller/state/flows/connections.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "common/fabric/builders.h"
#include "controller/state/state.h"

namespace espalier::controller {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Hosts h0 and h1 are 10.0.0.1 and 10.0.1.1; h2 and h3 are 10.1.0.1 and 10.1.1.1.
class ConnectionsTest : public testing::Test {
 protected:
  FlowSlot Open(const char* from, const char* to, std::uint32_t local, std::uint32_t remote) {
    Flow flow;
    flow.agent = AgentId(0);
    flow.local = wire::LocalFlowId(++last_);
    flow.source_address = *IpAddress::Parse(from);
    flow.destination_address = *IpAddress::Parse(to);
    flow.key.source = *state_.topology.FindNic(flow.source_address);
    flow.key.destination = *state_.topology.FindNic(flow.destination_address);
    flow.local_qpn = local;
    flow.remote_qpn = remote;
    flow.source_leaf = state_.paths.FindAttachment(flow.key.source)->leaf;
    flow.destination_leaf = state_.paths.FindAttachment(flow.key.destination)->leaf;
    const FlowSlot slot = state_.flows.Open(std::move(flow));
    state_.decisions.Admit(slot, 1, {});
    return slot;
  }
  void Close(FlowSlot slot) {
    state_.decisions.Release(slot);
    state_.flows.Close(slot);
  }
  std::optional<FlowSlot> Opposite(FlowSlot slot) { return state_.flows.At(slot).opposite; }
  std::vector<std::uint32_t> Wanted(const std::string& host) {
    std::vector<std::uint32_t> numbers;
    for (const wire::QueuePair& pair : state_.connections.TakeWanted(host)) {
      numbers.push_back(pair.number);
    }
    return numbers;
  }

  State state_{*fabric::Topology::Build(
      *fabric::BuildLeafSpine({.spines = 2, .leaves = 2, .hosts_per_leaf = 2}))};
  std::uint64_t last_ = 0;
};

TEST_F(ConnectionsTest, PairsFlowsWhoseAddressesAndNumbersAreExchanged) {
  const FlowSlot there = Open("10.0.0.1", "10.1.0.1", 17, 18);
  const FlowSlot stranger = Open("10.1.0.1", "10.0.0.1", 18, 19);
  const FlowSlot elsewhere = Open("10.0.1.1", "10.0.0.1", 18, 17);
  EXPECT_FALSE(Opposite(there));
  const FlowSlot back = Open("10.1.0.1", "10.0.0.1", 18, 17);
  EXPECT_EQ(Opposite(there), back);
  EXPECT_EQ(Opposite(back), there);
  EXPECT_FALSE(Opposite(stranger));
  EXPECT_FALSE(Opposite(elsewhere));
  EXPECT_EQ(state_.flows.At(there).other_end, OtherEnd::kQuiet);
}

TEST_F(ConnectionsTest, FlowsWithoutNumbersAreNotPaired) {
  const FlowSlot there = Open("10.0.0.1", "10.1.0.1", 0, 0);
  const FlowSlot back = Open("10.1.0.1", "10.0.0.1", 0, 0);
  EXPECT_FALSE(Opposite(there));
  EXPECT_FALSE(Opposite(back));
  EXPECT_EQ(state_.connections.size(), 0U);
  EXPECT_THAT(Wanted("h2"), IsEmpty());
}

TEST_F(ConnectionsTest, TheFirstOfTwoFlowsWithTheSameNumbersCounts) {
  const FlowSlot first = Open("10.0.0.1", "10.1.0.1", 17, 18);
  const FlowSlot second = Open("10.0.0.1", "10.1.0.1", 17, 18);
  const FlowSlot back = Open("10.1.0.1", "10.0.0.1", 18, 17);
  EXPECT_EQ(Opposite(back), first);
  Close(second);
  EXPECT_EQ(Opposite(back), first);
  Close(first);
  EXPECT_FALSE(Opposite(back));
  EXPECT_EQ(state_.flows.At(back).other_end, OtherEnd::kUnknown);
  const FlowSlot third = Open("10.0.0.1", "10.1.0.1", 17, 18);
  EXPECT_EQ(Opposite(back), third);
}

TEST_F(ConnectionsTest, AsksForUnknownOtherEndsEverLessOften) {
  Open("10.0.0.1", "10.1.0.1", 17, 18);
  Open("10.0.0.1", "10.1.1.1", 19, 20);
  EXPECT_THAT(Wanted("h0"), IsEmpty());
  EXPECT_THAT(Wanted("h3"), ElementsAre(20));
  int asked = 0;
  for (int call = 0; call < 1'000; ++call) asked += Wanted("h2").empty() ? 0 : 1;
  EXPECT_GT(asked, 15);
  EXPECT_LT(asked, 30);
  Open("10.0.0.1", "10.1.0.1", 21, 22);  // one more: both are asked for at once
  EXPECT_THAT(Wanted("h2"), ElementsAre(18, 22));
  Open("10.1.0.1", "10.0.0.1", 18, 17);
  const FlowSlot last = Open("10.1.0.1", "10.0.0.1", 22, 21);
  EXPECT_THAT(Wanted("h2"), IsEmpty());
  Close(last);
  EXPECT_THAT(Wanted("h2"), ElementsAre(22));
}

TEST_F(ConnectionsTest, NamesNoMoreThanAMessageHolds) {
  for (std::uint32_t i = 0; i < 1'500; ++i) Open("10.0.0.1", "10.1.0.1", 1'000 + i, 5'000 + i);
  EXPECT_EQ(Wanted("h2").size(), Connections::kMostWanted);
}

}  // namespace
}  // namespace espalier::controller
