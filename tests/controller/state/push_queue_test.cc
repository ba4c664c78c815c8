// Decisions that are not pushed yet, each queued once.
#include "controller/state/flows/push_queue.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <set>
#include <utility>
#include <vector>

namespace espalier::controller {
namespace {

using Locals = std::vector<wire::LocalFlowId>;

constexpr AgentId kFirst{0};
constexpr AgentId kSecond{1};

class Pushes : public testing::Test {
 protected:
  FlowSlot Open(AgentId agent, std::uint64_t local) {
    Flow flow;
    flow.agent = agent;
    flow.local = wire::LocalFlowId(local);
    return flows_.Open(std::move(flow));
  }

  FlowTable flows_;
  PushQueue queue_{flows_};
};

TEST_F(Pushes, AnAgentStartsWithAFullPush) {
  EXPECT_TRUE(queue_.NeedsFull(kSecond));
  EXPECT_TRUE(queue_.Of(kSecond).needs_full);
  EXPECT_TRUE(queue_.IsEmpty());  // but nothing was decided for it
  queue_.Of(kSecond).needs_full = false;
  EXPECT_FALSE(queue_.NeedsFull(kSecond));
  EXPECT_TRUE(queue_.NeedsFull(kFirst));
}

TEST_F(Pushes, AFlowIsQueuedOnceUntilItIsTaken) {
  const FlowSlot flow = Open(kSecond, 17);
  queue_.Of(kSecond).needs_full = false;
  queue_.MarkFlow(flow);
  queue_.MarkFlow(flow);
  EXPECT_EQ(queue_.Of(kSecond).flows, Locals{wire::LocalFlowId(17)});
  EXPECT_TRUE(flows_.PushOf(flow).is_dirty);
  EXPECT_EQ(queue_.agents(), std::set{kSecond});
  EXPECT_FALSE(queue_.NeedsFull(kSecond));

  queue_.Of(kSecond).flows.clear();
  flows_.PushOf(flow).is_dirty = false;
  queue_.MarkFlow(flow);
  EXPECT_EQ(queue_.Of(kSecond).flows, Locals{wire::LocalFlowId(17)});
}

TEST_F(Pushes, AClosedFlowIsQueuedByItsLocalId) {
  const FlowSlot flow = Open(kFirst, 4);
  queue_.MarkFlow(flow);
  flows_.Close(flow);
  const FlowSlot next = Open(kFirst, 5);  // may have the slot of the other
  queue_.MarkFlow(next);
  EXPECT_EQ(queue_.Of(kFirst).flows, (Locals{wire::LocalFlowId(4), wire::LocalFlowId(5)}));
}

TEST_F(Pushes, AgentsAreSortedHoweverTheyAreMarked) {
  queue_.MarkAll(kSecond);
  queue_.MarkRankPlan(kFirst, {"train", 3});
  queue_.MarkAll(kSecond);
  EXPECT_EQ(queue_.agents(), (std::set{kFirst, kSecond}));
  EXPECT_FALSE(queue_.IsEmpty());
}

TEST_F(Pushes, PlansOfRanksAreQueuedOnce) {
  queue_.MarkRankPlan(kFirst, {"train", 3});
  queue_.MarkRankPlan(kFirst, {"train", 3});
  queue_.MarkRankPlan(kFirst, {"train", 1});
  EXPECT_EQ(queue_.Of(kFirst).plans, (std::set<RankOfJob>{{"train", 1}, {"train", 3}}));
  EXPECT_TRUE(queue_.Of(kSecond).plans.empty());
}

TEST_F(Pushes, AFullPushStaysQueuedUntilItIsTaken) {
  queue_.Of(kFirst).needs_full = false;
  queue_.MarkRankPlan(kFirst, {"train", 3});
  EXPECT_FALSE(queue_.NeedsFull(kFirst));
  queue_.MarkAll(kFirst);
  queue_.MarkFlow(Open(kFirst, 4));
  EXPECT_TRUE(queue_.NeedsFull(kFirst));
}

}  // namespace
}  // namespace espalier::controller
