// Tests reports of flows that open, progress and end.
#include "controller/agents/flow_intake.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/controller/agents/flow_fixture.h"

namespace espalier::controller {
namespace {

using namespace std::chrono_literals;
using Ids = std::vector<std::uint64_t>;

enum class Outcome { kNothing, kNeedsTurn, kReportLost };

class Intake : public FlowFixture {
 protected:
  Intake() : FlowFixture({.max_flows_per_agent = 3}) {}

  Outcome Handle(const wire::FlowReport& report, const std::string& agent = "h0") {
    const int turns = turns_;
    if (!intake_.Handle(Agent(agent), report)) return Outcome::kReportLost;
    return turns_ > turns ? Outcome::kNeedsTurn : Outcome::kNothing;
  }
  wire::FlowReport Full(std::uint64_t sequence, const Ids& ids) const {
    wire::FlowReport report = Opening(sequence, ids);
    report.full = true;
    return report;
  }
  static wire::FlowReport Progress(std::uint64_t sequence, std::uint64_t id,
                                   std::uint64_t remaining) {
    wire::FlowReport report;
    report.sequence = sequence;
    report.progress = {{.id = wire::LocalFlowId(id), .remaining_bytes = remaining}};
    return report;
  }

  int turns_ = 0;  // requested
  BurstWatch watch_{state_, learner_};
  FlowIntake intake_{state_, placement_,          bursts_, predictor_,
                     watch_, controller_options_, *loop_,  [this] { ++turns_; }};
};

TEST_F(Intake, TheFirstFullReportIsTheAgentsState) {
  EXPECT_EQ(Handle(Full(5, {})), Outcome::kNeedsTurn);  // it is pushed to from now on
  EXPECT_TRUE(state_.agents.At(Agent("h0")).reported);
  EXPECT_EQ(state_.agents.At(Agent("h0")).report_sequence, 5U);
  EXPECT_EQ(Handle(Full(6, {})), Outcome::kNothing);
}

TEST_F(Intake, WarnsOnceOfTransportsThatWaitLong) {
  wire::FlowReport report = Opening(1, {7, 8});
  report.opened[0].timeout_us = 67'108;
  report.opened[1].timeout_us = 4'294'967;
  report.opened[1].repetitions = 7;
  Handle(report);
  EXPECT_EQ(EventsOf("transport_waits_long"), 1U);
  EXPECT_TRUE(LastOf("transport_waits_long")
                  .starts_with("flow=h0:8 job=job timeout_seconds=4.3 repetitions=7 remedy="));
  wire::FlowReport more = Opening(2, {9});
  more.opened[0].timeout_us = 4'294'967;
  Handle(more);
  EXPECT_EQ(EventsOf("transport_waits_long"), 1U);
}

TEST_F(Intake, OpensAFlowWithAllReportedFields) {
  wire::FlowReport report = Opening(1, {7});
  wire::OpenedFlow& said = report.opened[0];
  said.protocol = wire::kProtocolTcp;
  said.destination_port = 80;
  said.local_qpn = 11;
  said.remote_qpn = 12;
  said.source_port = 0xC123;
  said.max_paths = 2;
  said.movable = false;
  said.age_us = 2'000'000;
  EXPECT_EQ(Handle(report), Outcome::kNeedsTurn);
  const Flow& flow = FlowOf("h0", 7);
  EXPECT_EQ(flow.source_address, Address("h0"));
  EXPECT_EQ(flow.destination_address, Address("h1"));
  EXPECT_EQ(flow.key.protocol, wire::kProtocolTcp);
  EXPECT_EQ(flow.key.destination_port, 80U);
  EXPECT_EQ(flow.local_qpn, 11U);
  EXPECT_EQ(flow.remote_qpn, 12U);
  EXPECT_EQ(flow.own_port, 0xC123U);
  EXPECT_EQ(flow.subflows.size(), 2U);
  EXPECT_FALSE(flow.movable);
  EXPECT_EQ(flow.reported, loop_->Now());
  EXPECT_EQ(flow.started, loop_->Now() - 2s);
  EXPECT_EQ(flow.status, FlowStatus::kNew);
  EXPECT_EQ(state_.flows.jobs().At(flow.job), "job");
}

TEST_F(Intake, IgnoresAReportAfterAMissingOne) {
  EXPECT_EQ(Handle(Opening(1, {1})), Outcome::kNeedsTurn);
  EXPECT_EQ(Handle(Opening(3, {2})), Outcome::kReportLost);
  EXPECT_EQ(OpenOf("h0"), Ids{1});
  EXPECT_EQ(state_.agents.At(Agent("h0")).report_sequence, 1U);
  EXPECT_EQ(Handle(Opening(2, {2})), Outcome::kNeedsTurn);
  EXPECT_EQ(OpenOf("h0"), (Ids{1, 2}));
}

TEST_F(Intake, AFullReportClosesMissingFlowsAndKeepsTheOthers) {
  Handle(Opening(1, {1, 2}));
  const FlowSlot kept = *state_.flows.Find(Agent("h0"), wire::LocalFlowId(2));
  Handle(Full(9, {2, 3}));
  EXPECT_EQ(OpenOf("h0"), (Ids{2, 3}));
  EXPECT_EQ(state_.flows.Find(Agent("h0"), wire::LocalFlowId(2)), kept);
  EXPECT_EQ(state_.agents.At(Agent("h0")).report_sequence, 9U);
}

TEST_F(Intake, AnAgentCannotEndFlowsOfOthers) {
  Handle(Opening(1, {1}, "h2", "h1"), "h2");
  Handle(Ending(1, {wire::LocalFlowId(1)}));
  Handle(Full(2, {}));
  EXPECT_EQ(OpenOf("h2"), Ids{1});
}

// Ended flows are closed before others open, and flows that begin and end in one report are closed.
TEST_F(Intake, ClosesFlowsBeforeAndAfterOpeningOthers) {
  Handle(Opening(1, {1, 2, 3}));
  wire::FlowReport next = Opening(2, {4, 5});
  next.ended = {wire::LocalFlowId(1), wire::LocalFlowId(2), wire::LocalFlowId(5)};
  EXPECT_EQ(Handle(next), Outcome::kNeedsTurn);
  EXPECT_EQ(OpenOf("h0"), (Ids{3, 4}));
  EXPECT_EQ(EventsOf("flows_refused"), 0U);
}

TEST_F(Intake, OpensNoMoreThanTheLimitOfAnAgent) {
  Handle(Opening(1, {1, 2, 3, 4, 5}));
  EXPECT_EQ(OpenOf("h0"), (Ids{1, 2, 3}));
  EXPECT_EQ(LastOf("flows_refused"), "agent=h0 flows=2 limit=3");
  Handle(Opening(1, {1}, "h2", "h1"), "h2");  // of each
  EXPECT_EQ(OpenOf("h2"), Ids{1});
}

TEST_F(Intake, ProgressAloneNeedsNoTurn) {
  Handle(Opening(1, {1}));
  EXPECT_EQ(Handle(Progress(2, 1, 1'000)), Outcome::kNothing);
  const FlowSlot slot = *state_.flows.Find(Agent("h0"), wire::LocalFlowId(1));
  EXPECT_EQ(state_.flows.ActivityOf(slot).remaining_bytes, 1'000U);
}

TEST_F(Intake, RoundsOfAJobFollowTheMessagesOfItsFlows) {
  Handle(Opening(1, {1}));
  const std::uint32_t job = FlowOf("h0", 1).job;
  const TimePoint began = loop_->Now();
  Handle(Progress(2, 1, 12'500'000'000));  // a second of its NIC
  EXPECT_EQ(state_.rounds.Begun(job, began), began);
  world_.RunFor(2s);
  Handle(Progress(3, 1, 0));
  const auto finished = state_.rounds.Finished(job, loop_->Now() + 1s);
  ASSERT_EQ(finished.size(), 1U);
  EXPECT_EQ(finished[0].duration, 2s);
  EXPECT_EQ(finished[0].ideal, 1s);
}

TEST_F(Intake, ARoundEndsWithItsLastBusyFlow) {
  Handle(Opening(1, {1}));
  const std::uint32_t job = FlowOf("h0", 1).job;
  Handle(Progress(2, 1, 1'000));
  Handle(Ending(3, {wire::LocalFlowId(1)}));
  EXPECT_EQ(state_.rounds.Count(job, loop_->Now() + 1s), 1U);
}

TEST_F(Intake, CloseAllClosesTheFlowsOfAProcess) {
  Handle(Opening(1, {1, 2}));
  intake_.CloseAll(Agent("h0"));
  EXPECT_TRUE(OpenOf("h0").empty());
}

TEST_F(Intake, AnAgentCannotEndEdgesOfForests) {
  Handle(Full(1, {1}));
  const EdgeName edge =
      state_.edges.Open(Agent("h0"), {.job = FlowOf("h0", 1).job,
                                      .source_leaf = FlowOf("h0", 1).source_leaf,
                                      .destination_leaf = FlowOf("h0", 1).destination_leaf,
                                      .load = 1});
  Handle(Ending(2, {edge.number}));
  Handle(Full(3, {}));
  intake_.CloseAll(Agent("h0"));
  EXPECT_TRUE(OpenOf("h0").empty());
  EXPECT_NE(state_.edges.Find(edge), nullptr);
}

// Regression: a job that was started later once stopped the controller.
TEST_F(Intake, AFlowMayHaveTheNumberOfAnEdge) {
  const std::uint64_t number = std::uint64_t{1} << 63U;
  Handle(Opening(1, {number}));
  const EdgeName edge =
      state_.edges.Open(Agent("h0"), {.job = FlowOf("h0", number).job,
                                      .source_leaf = FlowOf("h0", number).source_leaf,
                                      .destination_leaf = FlowOf("h0", number).destination_leaf,
                                      .load = 1});
  EXPECT_EQ(edge.number.value(), number);
  Handle(Ending(2, {edge.number}));
  EXPECT_TRUE(OpenOf("h0").empty());
  EXPECT_NE(state_.edges.Find(edge), nullptr);
}

TEST_F(Intake, FlowsOfAnAgentThatIsGoneStayForTheLease) {
  Handle(Opening(1, {1, 2}));
  Handle(Opening(1, {1}, "h2", "h1"), "h2");
  state_.agents.At(Agent("h0")).last_heard = loop_->Now();
  state_.agents.Disconnect(Agent("h0"));
  world_.RunFor(controller_options_.lease);
  intake_.Tick();
  EXPECT_EQ(OpenOf("h0"), (Ids{1, 2}));
  world_.RunFor(1ns);
  intake_.Tick();
  EXPECT_TRUE(OpenOf("h0").empty());
  EXPECT_EQ(LastOf("agent_flows_dropped"), "agent=h0 flows=2");
  EXPECT_EQ(OpenOf("h2"), Ids{1});  // its agent is connected
}

TEST_F(Intake, AFlowWhoseAdoptionTimesOutIsPlaced) {
  wire::FlowReport report = Full(1, {1});
  report.opened[0].steered = true;
  report.opened[0].source_port = 0xC123;
  Handle(report);
  ASSERT_EQ(FlowOf("h0", 1).status, FlowStatus::kAdopting);
  state_.agents.At(Agent("h0")).hold_until = loop_->Now() + 2s;
  world_.RunFor(2s - 1ns);
  intake_.Tick();
  EXPECT_EQ(FlowOf("h0", 1).status, FlowStatus::kAdopting);
  world_.RunFor(1ns);
  intake_.Tick();
  EXPECT_NE(FlowOf("h0", 1).status, FlowStatus::kAdopting);
}

TEST_F(Intake, AFlowWithAnotherHostsAddressGetsNoPath) {
  Handle(Opening(1, {1}, "h1", "h2"), "h0");
  EXPECT_EQ(FlowOf("h0", 1).status, FlowStatus::kUnroutable);
}

}  // namespace
}  // namespace espalier::controller
