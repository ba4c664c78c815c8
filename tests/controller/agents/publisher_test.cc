// Tests what is pushed to agents, and when a full push is needed.
#include "controller/agents/publisher.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "common/fabric/builders.h"

namespace espalier::controller {
namespace {

using namespace std::chrono_literals;
using Locals = std::vector<std::uint64_t>;

constexpr TimePoint kStart{std::chrono::hours(1)};

class Publishing : public testing::Test {
 protected:
  Publishing() {
    state_.epoch = 4;
    agent().features = {"collective", "job_user"};
    agent().reported = true;
    state_.agents.Connect(id_, PeerId(1));
  }
  Agent& agent() { return state_.agents.At(id_); }
  // A flow with this port.
  FlowSlot Open(std::uint64_t local, std::uint16_t port, FlowStatus status = FlowStatus::kRouted) {
    Flow flow;
    flow.agent = id_;
    flow.local = wire::LocalFlowId(local);
    flow.status = status;
    flow.subflows.resize(1);
    flow.subflows[0].port = port;
    flow.subflows[0].port_path = fabric::PathIndex(1);
    return state_.flows.Open(std::move(flow));
  }
  void Decide(FlowSlot flow) { state_.pushes.MarkFlow(flow); }
  void QueuePush(AgentId id) { state_.pushes.agents().insert(id); }
  void SetPlan(const wire::RankPlan& plan) {
    const RankOfJob rank(plan.job, plan.rank);
    agent().plans[rank] = {std::make_shared<const wire::RankPlan>(plan), 0};
    state_.pushes.MarkRankPlan(id_, rank);
  }
  void EndPlan(const RankOfJob& rank) {
    agent().plans.erase(rank);
    state_.pushes.MarkRankPlan(id_, rank);
  }
  // All pushes so far.
  std::vector<wire::PathPush> Push(TimePoint now = kStart) {
    pushes_.clear();
    plans_.clear();
    publisher_.PushChanges(now);
    return pushes_;
  }
  void Ack(std::uint64_t generation, wire::AckStatus status = wire::AckStatus::kApplied,
           std::uint64_t epoch = 4) {
    publisher_.HandleAck(id_, {.epoch = epoch, .generation = generation, .status = status}, kStart);
  }
  // Makes all further pushes differences.
  void BringIntoStep() {
    QueuePush(id_);
    Push();
    Ack(agent().generation);
  }
  static Locals SetsOf(const wire::PathPush& push) {
    Locals flows;
    for (const wire::PathSet& set : push.sets) flows.push_back(set.flow.value());
    return flows;
  }
  bool Send(wire::Body body) {
    if (auto* push = std::get_if<wire::PathPush>(&body)) pushes_.push_back(*push);
    if (auto* plan = std::get_if<wire::RankPlan>(&body)) plans_.push_back(*plan);
    return has_room_;
  }

  ControllerOptions options_;
  Metrics metrics_;
  State state_{*fabric::Topology::Build(
      *fabric::BuildLeafSpine({.spines = 2, .leaves = 2, .hosts_per_leaf = 1}))};
  AgentId id_ = state_.agents.Intern("h0");
  std::vector<wire::PathPush> pushes_;
  std::vector<wire::RankPlan> plans_;
  bool has_room_ = true;
  Publisher publisher_{state_, options_,
                       [this](AgentId, wire::Body body) { return Send(std::move(body)); },
                       metrics_};
};

TEST_F(Publishing, BeginsWithAFullPushAndContinuesWithDifferences) {
  Open(1, 0xC001);
  const FlowSlot second = Open(2, 0xC002);
  QueuePush(id_);
  const auto first = Push();
  ASSERT_EQ(first.size(), 1U);
  EXPECT_TRUE(first[0].full);
  EXPECT_EQ(first[0].epoch, 4U);
  EXPECT_EQ(first[0].generation, 1U);
  EXPECT_EQ(SetsOf(first[0]), (Locals{1, 2}));
  EXPECT_EQ(first[0].sets[0].paths[0].source_port, 0xC001);
  EXPECT_EQ(first[0].sets[0].paths[0].path_id, 1U);

  EXPECT_TRUE(Push().empty());
  Decide(second);
  const auto next = Push();
  ASSERT_EQ(next.size(), 1U);
  EXPECT_FALSE(next[0].full);
  EXPECT_EQ(next[0].generation, 2U);
  EXPECT_EQ(SetsOf(next[0]), Locals{2});
  EXPECT_EQ(state_.flows.PushOf(second).generation, 2U);
  EXPECT_FALSE(state_.flows.PushOf(second).is_dirty);
}

TEST_F(Publishing, WaitsForTheFirstReportAndForFlowsThatAreBeingAdopted) {
  const FlowSlot flow = Open(1, 0xC001, FlowStatus::kAdopting);
  agent().reported = false;
  QueuePush(id_);
  EXPECT_TRUE(Push().empty());
  agent().reported = true;
  EXPECT_TRUE(Push().empty());  // it would lose its port
  state_.decisions.FinishPorts(flow, wire::PathReason::kAssigned, true);
  ASSERT_EQ(Push().size(), 1U);
  EXPECT_EQ(SetsOf(pushes_[0]), Locals{1});
}

TEST_F(Publishing, AnAgentInStepIsNotHeldByFlowsThatAreBeingAdopted) {
  BringIntoStep();
  Open(1, 0xC001, FlowStatus::kAdopting);
  Decide(Open(2, 0xC002));
  ASSERT_EQ(Push().size(), 1U);
  EXPECT_EQ(SetsOf(pushes_[0]), Locals{2});
}

TEST_F(Publishing, NothingIsPushedToAnAgentThatIsGone) {
  Open(1, 0xC001);
  state_.agents.Disconnect(id_);
  state_.pushes.MarkAll(id_);
  EXPECT_TRUE(Push().empty());
  EXPECT_TRUE(state_.pushes.agents().empty());
  EXPECT_EQ(agent().generation, 0U);
}

TEST_F(Publishing, AFlowThatLostItsPortsIsWithdrawnOnce) {
  const FlowSlot flow = Open(1, 0xC001);
  BringIntoStep();
  state_.decisions.ports().Drop(flow, 0);
  Decide(flow);
  ASSERT_EQ(Push().size(), 1U);
  EXPECT_TRUE(pushes_[0].sets.empty());
  EXPECT_EQ(pushes_[0].withdrawn, std::vector{wire::LocalFlowId(1)});
  Decide(flow);
  EXPECT_TRUE(Push().empty());  // nothing that it has not been told
}

TEST_F(Publishing, EdgesOfForestsArePushedWithTheirPlans) {
  state_.edges.Open(id_, {.source_port = 0xC001,
                          .source_leaf = *state_.topology.FindNode("leaf0"),
                          .destination_leaf = *state_.topology.FindNode("leaf1"),
                          .load = 5});
  QueuePush(id_);
  ASSERT_EQ(Push().size(), 1U);
  EXPECT_TRUE(pushes_[0].sets.empty());
}

TEST_F(Publishing, APushThatIsDroppedIsFollowedByAFullOne) {
  BringIntoStep();
  has_room_ = false;
  Decide(Open(1, 0xC001));
  EXPECT_EQ(Push().size(), 1U);
  has_room_ = true;
  ASSERT_EQ(Push().size(), 1U);
  EXPECT_TRUE(pushes_[0].full);
  EXPECT_EQ(pushes_[0].generation, 3U);
}

TEST_F(Publishing, AnUnacknowledgedPushIsFollowedByAFullOne) {
  Open(1, 0xC001);
  QueuePush(id_);
  Push();
  EXPECT_TRUE(publisher_.AwaitsAcknowledgements());
  publisher_.ResendUnacknowledged(kStart + options_.resend_after);
  EXPECT_TRUE(Push().empty());
  publisher_.ResendUnacknowledged(kStart + options_.resend_after + 1ns);
  ASSERT_EQ(Push(kStart + 2s).size(), 1U);
  EXPECT_TRUE(pushes_[0].full);
  Ack(2);
  EXPECT_FALSE(publisher_.AwaitsAcknowledgements());
  publisher_.ResendUnacknowledged(kStart + 1h);
  EXPECT_TRUE(Push().empty());
}

TEST_F(Publishing, AcknowledgementsOfOtherEpochsOrFuturePushesAreIgnored) {
  Open(1, 0xC001);
  QueuePush(id_);
  Push();
  Ack(1, wire::AckStatus::kApplied, 3);
  Ack(2);
  EXPECT_EQ(agent().acked_generation, 0U);
  Ack(1);
  Ack(0);  // an old one that comes late
  EXPECT_EQ(agent().acked_generation, 1U);
}

TEST_F(Publishing, AnAgentThatAsksForAFullPushGetsIt) {
  const FlowSlot flow = Open(1, 0xC001);
  BringIntoStep();
  Decide(flow);
  Push();
  Ack(1, wire::AckStatus::kNeedFull);  // of the push before: what it missed is on its way
  EXPECT_TRUE(Push().empty());
  Ack(2, wire::AckStatus::kNeedFull);
  ASSERT_EQ(Push().size(), 1U);
  EXPECT_TRUE(pushes_[0].full);
}

TEST_F(Publishing, AnAgentThatAsksForFullPushesWithoutEndGetsOneASecond) {
  const FlowSlot flow = Open(1, 0xC001);
  BringIntoStep();
  std::size_t full = 0;
  for (int ms = 0; ms < 5'000; ++ms) {
    const TimePoint now = kStart + ms * 1ms;
    publisher_.HandleAck(
        id_, {.epoch = 4, .generation = agent().generation, .status = wire::AckStatus::kNeedFull},
        now);
    pushes_.clear();
    publisher_.PushChanges(now);
    for (const wire::PathPush& push : pushes_) full += push.full ? 1 : 0;
  }
  EXPECT_GE(full, 4U);
  EXPECT_LE(full, 6U);
  Decide(flow);  // what is decided meanwhile is part of the next one
  pushes_.clear();
  publisher_.PushChanges(kStart + 7s);
  ASSERT_EQ(pushes_.size(), 1U);
  EXPECT_EQ(SetsOf(pushes_[0]), Locals{1});
}

TEST_F(Publishing, RecordsFailedPushesAndLaterControllers) {
  Ack(0, wire::AckStatus::kFailed);
  Ack(0, wire::AckStatus::kStaleEpoch, 9);
  const auto events = state_.history.Since(0, 10);
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(events[0].text, "agent=h0 flows=0 detail=\"\"");
  EXPECT_EQ(events[1].kind + " " + events[1].text, "stale_epoch agent=h0 ours=4 its=9");
  EXPECT_TRUE(Push().empty());
}

TEST_F(Publishing, LogsEachDecisionOnce) {
  const FlowSlot flow = Open(1, 0xC001);
  QueuePush(id_);
  Push();
  state_.pushes.MarkAll(id_);
  Push();  // the same again
  EXPECT_EQ(state_.push_log.entries().size(), 1U);
  Decide(flow);
  Push();
  ASSERT_EQ(state_.push_log.entries().size(), 2U);
  EXPECT_EQ(state_.push_log.entries().back().port, 0xC001);
}

TEST_F(Publishing, RankPlansAreSentBeforeThePushThatCountsThem) {
  BringIntoStep();
  wire::RankPlan plan;
  plan.job = "train";
  plan.rank = 3;
  SetPlan(plan);
  ASSERT_EQ(Push().size(), 1U);
  ASSERT_EQ(plans_.size(), 1U);
  EXPECT_EQ(pushes_[0].plans, 1U);
  EXPECT_EQ(plans_[0].generation, 2U);
  EXPECT_EQ(plans_[0].epoch, 4U);
  EXPECT_EQ(agent().plans.at({"train", 3}).generation, 2U);
  EndPlan({"train", 3});
  ASSERT_EQ(Push().size(), 1U);
  ASSERT_EQ(plans_.size(), 1U);
  EXPECT_EQ(plans_[0].rank, 3U);
  EXPECT_TRUE(state_.pushes.Of(id_).plans.empty());
}

TEST_F(Publishing, NoPlanOfAUserGoesToAnAgentThatDoesNotKnowUsers) {
  wire::RankPlan plan;
  plan.job = "train";
  plan.user = "ada";
  agent().features = {"collective"};
  SetPlan(plan);
  ASSERT_EQ(Push().size(), 1U);
  EXPECT_TRUE(plans_.empty());
  EXPECT_EQ(pushes_[0].plans, 0U);
  EXPECT_EQ(agent().plans.at({"train", 0}).generation, 0U);
}

TEST_F(Publishing, NoPlanOfSeveralNicsGoesToAnAgentThatDoesNotKnowThem) {
  wire::RankPlan plan;
  plan.job = "train";
  plan.listen_addresses = {*IpAddress::Parse("10.2.0.1")};
  SetPlan(plan);
  ASSERT_EQ(Push().size(), 1U);
  EXPECT_TRUE(plans_.empty());
  agent().features = {"collective", "rank_nics"};
  SetPlan(plan);
  ASSERT_EQ(Push().size(), 1U);
  EXPECT_EQ(plans_.size(), 1U);
}

TEST_F(Publishing, NoPartOfAProgramGoesToAnAgentThatTakesWholeOnes) {
  wire::RankPlan plan;
  plan.job = "train";
  plan.program_version = 2;
  agent().features = {"collective"};
  SetPlan(plan);
  ASSERT_EQ(Push().size(), 1U);
  EXPECT_TRUE(plans_.empty());
  agent().features = {"collective", "rank_programs"};
  SetPlan(plan);
  ASSERT_EQ(Push().size(), 1U);
  EXPECT_EQ(plans_.size(), 1U);
}

TEST_F(Publishing, AnAgentWithoutCollectivesGetsNoPlan) {
  BringIntoStep();
  agent().features = {};
  SetPlan({});
  EXPECT_TRUE(Push().empty());
}

TEST_F(Publishing, OneAgentAloneCanBePushedFirst) {
  const AgentId other = state_.agents.Intern("h1");
  state_.agents.Connect(other, PeerId(2));
  state_.agents.At(other).reported = true;
  QueuePush(id_);
  QueuePush(other);
  publisher_.PushChangesOf(other, kStart);
  EXPECT_EQ(pushes_.size(), 1U);
  publisher_.PushChangesOf(other, kStart);
  EXPECT_EQ(pushes_.size(), 1U);
  EXPECT_EQ(state_.pushes.agents(), std::set{id_});
}

}  // namespace
}  // namespace espalier::controller
