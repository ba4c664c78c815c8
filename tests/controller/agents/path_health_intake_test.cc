// Tests hosts' reports on the paths of their flows.
#include "controller/agents/path_health_intake.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/controller/agents/flow_fixture.h"

namespace espalier::controller {
namespace {

using namespace std::chrono_literals;
using wire::PathBasis;
using wire::PathVerdict;

class PathHealthIntakeTest : public FlowFixture {
 protected:
  PathHealthIntakeTest() {
    for (const char* const host : {"h0", "h2"}) Open(host, 1, 1);
  }
  // A flow to h1 on the paths 0, 1, ...
  void Open(const std::string& host, std::uint64_t id, std::uint8_t paths) {
    Flow flow;
    flow.agent = Agent(host);
    flow.local = wire::LocalFlowId(id);
    flow.source_address = Address(host);
    flow.destination_address = Address("h1");
    flow.max_paths = paths;
    const FlowSlot slot = state_.flows.Open(std::move(flow));
    placement_.Admit(slot, {});
    for (std::uint32_t subflow = 0; subflow < paths; ++subflow) {
      state_.decisions.Place(slot, subflow, static_cast<std::int32_t>(subflow));
    }
    state_.decisions.FinishPorts(slot, wire::PathReason::kAssigned, true);
  }
  bool Say(const std::string& host, PathVerdict verdict, std::uint32_t path = 0,
           std::uint64_t id = 1, PathBasis basis = PathBasis::kProbed) {
    wire::PathHealth health;
    health.flows = {{.flow = wire::LocalFlowId(id),
                     .path_id = path,
                     .source_port = 0xC007,
                     .verdict = verdict,
                     .basis = basis}};
    return verdicts_.Handle(Agent(host), health);
  }
  std::size_t Dead() const { return EventsOf("flow_path_dead"); }
  std::int64_t Ignored() { return flow_metrics_.MakeCounter(kIgnored, "").Value(); }

  static constexpr const char* kIgnored = "espalier_controller_verdicts_ignored_total";
  PathHealthIntake verdicts_{state_, placement_, *health_, *loop_, flow_metrics_};
};

TEST_F(PathHealthIntakeTest, ToldRecoveriesAreEventsAndAccuseNoPath) {
  wire::PathHealth health;
  health.flows = {{.flow = wire::LocalFlowId(1), .source_port = 0xC007, .recovered_us = 67'100}};
  EXPECT_FALSE(verdicts_.Handle(Agent("h0"), health));
  EXPECT_EQ(LastOf("flow_recovered"), "flow=h0:1 port=49159 seconds_after_move=0.067");
  EXPECT_EQ(Dead(), 0U);
  health.flows[0].flow = wire::LocalFlowId(99);  // not open
  EXPECT_FALSE(verdicts_.Handle(Agent("h0"), health));
  EXPECT_EQ(EventsOf("flow_recovered"), 1U);
}

TEST_F(PathHealthIntakeTest, APathThatAHostHasSeenDeadIsTestedAndItsLinksStayInUse) {
  PassTrains(1);
  for (const char* const host : {"h0", "h2"}) EXPECT_FALSE(Say(host, PathVerdict::kDead));
  EXPECT_EQ(LastOf("flow_path_dead"), "flow=h2:1 port=49159");
  EXPECT_TRUE(UrgentPorts().contains(50'000));
  EXPECT_FALSE(IsDown("leaf1--spine0"));
}

TEST_F(PathHealthIntakeTest, WhatOnlyAProgramSaysHasNothingTested) {
  PassTrains(1);
  for (const char* const host : {"h0", "h2"}) {
    EXPECT_FALSE(Say(host, PathVerdict::kDead, 0, 1, PathBasis::kClaimed));
    world_.RunFor(100ms);
    EXPECT_TRUE(Say(host, PathVerdict::kLocallyRerouted, 0, 1, PathBasis::kClaimed));
  }
  EXPECT_EQ(Dead(), 2U) << "they are events of its own flow";
  EXPECT_TRUE(UrgentPorts().empty());
}

TEST_F(PathHealthIntakeTest, LostAcknowledgementsHaveNoLinkOfThePathTested) {
  PassTrains(1);
  for (const char* const host : {"h0", "h2"}) {
    wire::PathHealth health;
    health.flows = {{.flow = wire::LocalFlowId(1),
                     .source_port = 0xC007,
                     .verdict = PathVerdict::kLocallyRerouted,
                     .answered = true,
                     .basis = PathBasis::kKernel}};
    EXPECT_TRUE(verdicts_.Handle(Agent(host), health));
    EXPECT_EQ(FlowOf(host, 1).subflows[0].port, 0xC007);
  }
  EXPECT_EQ(LastOf("flow_locally_rerouted"), "flow=h2:1 port=49159 lost=acknowledgements");
  EXPECT_TRUE(UrgentPorts().empty());
}

// The host has left a path that the flow has no more: it is not known for which one.
TEST_F(PathHealthIntakeTest, AnOldPathOfASplitFlowIsNotTakenForAnother) {
  Open("h0", 2, 3);
  Say("h0", PathVerdict::kLocallyRerouted, 9, 2);
  for (const Subflow& subflow : FlowOf("h0", 2).subflows) EXPECT_NE(subflow.port, 0xC007);
}

TEST_F(PathHealthIntakeTest, AFlowThatWasReroutedLocallyNeedsATurn) {
  EXPECT_TRUE(Say("h0", PathVerdict::kLocallyRerouted));
  EXPECT_EQ(LastOf("flow_locally_rerouted"), "flow=h0:1 port=49159");
  EXPECT_EQ(FlowOf("h0", 1).subflows[0].port, 0xC007);
  PassTrains(1);
  Say("h2", PathVerdict::kLocallyRerouted);  // which says as well that the path is dead
  EXPECT_TRUE(UrgentPorts().contains(50'000));
}

TEST_F(PathHealthIntakeTest, GoodAndSlowPathsAreIgnored) {
  for (const char* const host : {"h0", "h2"}) {
    EXPECT_FALSE(Say(host, PathVerdict::kGood));
    EXPECT_FALSE(Say(host, PathVerdict::kSlow));
  }
  EXPECT_EQ(state_.history.last_sequence(), 0U);
}

TEST_F(PathHealthIntakeTest, AnAgentReportsOnlyItsOwnFlows) {
  EXPECT_FALSE(Say("h0", PathVerdict::kDead, 0, 99));
  EXPECT_FALSE(Say("h3", PathVerdict::kLocallyRerouted));
  EXPECT_EQ(state_.history.last_sequence(), 0U);
}

TEST_F(PathHealthIntakeTest, APathIsReportedOnceAnInterval) {
  Say("h0", PathVerdict::kDead);
  world_.RunFor(100ms - 1ns);
  EXPECT_FALSE(Say("h0", PathVerdict::kLocallyRerouted));
  EXPECT_EQ(EventsOf("flow_locally_rerouted"), 0U);
  EXPECT_EQ(Ignored(), 1);
  Say("h2", PathVerdict::kDead);  // another host's flow
  EXPECT_EQ(Dead(), 2U);
  world_.RunFor(1ns);
  Say("h0", PathVerdict::kDead);
  EXPECT_EQ(Dead(), 3U);
}

TEST_F(PathHealthIntakeTest, EachPathOfASplitFlowIsReportedOnce) {
  Open("h0", 2, 2);
  for (std::uint32_t path = 0; path < 3; ++path) Say("h0", PathVerdict::kDead, path, 2);
  EXPECT_EQ(Dead(), 2U);
  EXPECT_EQ(Ignored(), 1);
}

}  // namespace
}  // namespace espalier::controller
