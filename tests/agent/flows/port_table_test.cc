#include "agent/flows/port_table.h"

#include <gmock/gmock.h>

#include "tests/agent/agent_fixture.h"

namespace espalier::agent {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using wire::AckStatus;

wire::LocalFlowId Id(std::uint64_t id) { return wire::LocalFlowId(id); }

wire::PathSet Set(std::uint64_t flow, std::uint16_t port,
                  wire::PathReason reason = wire::PathReason::kAssigned) {
  wire::PathSet set;
  set.flow = Id(flow);
  set.paths = {{.source_port = port, .encoding = {}}};
  set.reason = reason;
  return set;
}

wire::PathSet WithStandby(wire::PathSet set, std::uint16_t port,
                          wire::PathReason reason = wire::PathReason::kAssigned) {
  set.paths.push_back({.source_port = port, .weight = 0, .encoding = {}});
  set.reason = reason;
  return set;
}

class PortTableTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (std::uint64_t id = 1; id <= 4; ++id) Open(id);
  }
  void Open(std::uint64_t id) {
    source_.flows[Id(id)] = {
        .id = Id(id), .job = {}, .source = {}, .destination = {}, .first_seen = {}};
    table_.HandleFlows(source_.Flows());
  }
  void End(std::uint64_t id) {
    source_.flows.erase(Id(id));
    table_.HandleFlows(source_.Flows());
  }
  AckStatus Push(std::uint64_t epoch, std::uint64_t generation, std::vector<wire::PathSet> sets,
                 bool full = false, std::vector<wire::LocalFlowId> withdrawn = {}) {
    last_ack_ = table_.HandlePush({.epoch = epoch,
                                   .generation = generation,
                                   .full = full,
                                   .sets = std::move(sets),
                                   .withdrawn = std::move(withdrawn)});
    EXPECT_EQ(last_ack_.epoch, epoch);
    EXPECT_EQ(last_ack_.generation, generation);
    return last_ack_.status;
  }
  int Port(std::uint64_t id) const {
    const auto at = actuator_.ports.find(Id(id));
    return at == actuator_.ports.end() ? 0 : at->second;
  }

  FakeSource source_;
  FakeActuator actuator_{source_};
  PortTable table_{actuator_};
  wire::Ack last_ack_;
};

TEST_F(PortTableTest, DifferencesAddUp) {
  EXPECT_EQ(Push(1, 1, {Set(1, 50'001), Set(2, 50'002)}), AckStatus::kApplied);
  EXPECT_EQ(Push(1, 2, {Set(2, 50'012), Set(3, 50'003)}, false, {Id(1)}), AckStatus::kApplied);
  EXPECT_EQ(Port(1), 0);
  EXPECT_EQ(Port(2), 50'012);
  EXPECT_EQ(Port(3), 50'003);
  EXPECT_EQ(table_.highest_epoch(), 1u);
  EXPECT_EQ(table_.applied_generation(), 2u);
}

TEST_F(PortTableTest, KnowsWhichFlowsOperatorsDoNotWantSteered) {
  Push(1, 1, {Set(1, 50'001), Set(2, 50'002), Set(3, 50'003)});
  table_.HandlePush({.epoch = 1,
                     .generation = 2,
                     .sets = {},
                     .withdrawn = {Id(1), Id(2), Id(3)},
                     .unsteered = {Id(1), Id(2)}});
  EXPECT_EQ(Port(1), 0);
  EXPECT_TRUE(table_.IsUnsteered(Id(1)));
  EXPECT_FALSE(table_.IsUnsteered(Id(3)));
  table_.Expire();  // the controller is silent
  EXPECT_TRUE(table_.IsUnsteered(Id(1)));
  End(2);
  EXPECT_EQ(table_.CountUnsteered(), 1U);
  Push(2, 1, {Set(1, 50'001)}, /*full=*/true);
  EXPECT_EQ(table_.CountUnsteered(), 0U);
  EXPECT_EQ(Port(1), 50'001);
}

wire::PathSet WithRate(wire::PathSet set, std::uint64_t bits_per_second) {
  set.max_rate_bps = bits_per_second;
  return set;
}

TEST_F(PortTableTest, LiftsRatesAndTakesThemAgainWithoutMovingFlows) {
  Push(1, 1, {WithRate(Set(1, 50'001), 100), WithRate(Set(2, 50'002), 200), Set(3, 50'003)});
  EXPECT_EQ(table_.CountRates(), 2U);
  ASSERT_TRUE(table_.RerouteLocally(WithRate(Set(2, 60'000), 200)));
  EXPECT_EQ(table_.LiftRates(), 2U);
  EXPECT_EQ(table_.CountRates(), 0U);
  EXPECT_EQ(actuator_.last[Id(1)], Set(1, 50'001));
  EXPECT_EQ(actuator_.last[Id(2)], Set(2, 60'000));
  const int calls = actuator_.calls;
  EXPECT_EQ(table_.LiftRates(), 0U);
  EXPECT_EQ(actuator_.calls, calls);
  // The controller is back. It knows nothing of the local reroute, which survives.
  Push(2, 1, {WithRate(Set(1, 50'001), 100), WithRate(Set(2, 50'002), 300), Set(3, 50'003)}, true);
  EXPECT_EQ(actuator_.last[Id(1)], WithRate(Set(1, 50'001), 100));
  EXPECT_EQ(actuator_.last[Id(2)], WithRate(Set(2, 60'000), 300));
  EXPECT_EQ(actuator_.calls, calls + 2);
}

TEST_F(PortTableTest, StaleEpochChangesNothing) {
  Push(5, 1, {Set(1, 50'001)});
  EXPECT_EQ(Push(4, 2, {Set(1, 60'000)}), AckStatus::kStaleEpoch);
  EXPECT_EQ(Push(4, 9, {}, true), AckStatus::kStaleEpoch);
  EXPECT_EQ(Port(1), 50'001);
  EXPECT_EQ(table_.highest_epoch(), 5u);
}

TEST_F(PortTableTest, MissingGenerationNeedsAFullPush) {
  EXPECT_EQ(Push(1, 2, {Set(1, 50'001)}), AckStatus::kNeedFull);
  Push(1, 1, {Set(1, 50'001)});
  EXPECT_EQ(Push(1, 3, {Set(1, 50'003)}), AckStatus::kNeedFull);
  EXPECT_EQ(Port(1), 50'001);
  EXPECT_EQ(Push(1, 7, {Set(2, 50'002)}, true), AckStatus::kApplied);
  EXPECT_EQ(Port(1), 0);
  EXPECT_EQ(Port(2), 50'002);
  EXPECT_EQ(Push(1, 8, {Set(1, 50'008)}), AckStatus::kApplied);
}

TEST_F(PortTableTest, RepeatedPushIsAcknowledgedAndChangesNothing) {
  Push(1, 1, {Set(1, 50'001)});
  Push(1, 2, {Set(1, 50'002)});
  const int calls = actuator_.calls;
  EXPECT_EQ(Push(1, 1, {Set(1, 50'001)}), AckStatus::kApplied);
  EXPECT_EQ(Push(1, 2, {Set(1, 50'002)}), AckStatus::kApplied);
  EXPECT_EQ(Push(1, 1, {Set(1, 50'001)}, true), AckStatus::kApplied);
  EXPECT_EQ(actuator_.calls, calls);
  EXPECT_EQ(Port(1), 50'002);
  EXPECT_EQ(table_.applied_generation(), 2u);
}

TEST_F(PortTableTest, NewEpochStartsWithAFullPushWhereSomethingWasPushedBefore) {
  EXPECT_EQ(Push(1, 1, {Set(1, 50'001)}), AckStatus::kApplied);
  EXPECT_EQ(Push(2, 1, {Set(2, 50'002)}), AckStatus::kNeedFull);
  EXPECT_EQ(Push(1, 2, {Set(2, 50'002)}), AckStatus::kStaleEpoch);
  EXPECT_EQ(Push(2, 2, {Set(2, 50'002)}, true), AckStatus::kApplied);
  EXPECT_EQ(Port(1), 0);
}

TEST_F(PortTableTest, FullPushLeavesRepeatedPathSetsAlone) {
  Push(1, 1, {Set(1, 50'001), Set(2, 50'002)});
  ASSERT_TRUE(table_.RerouteLocally(Set(2, 60'000)));
  const int calls = actuator_.calls;
  Push(2, 1, {Set(1, 50'001), Set(2, 50'002)}, true);
  EXPECT_EQ(actuator_.calls, calls);
  EXPECT_EQ(Port(2), 60'000);
  EXPECT_FALSE(table_.IsSteered(Id(2), 60'000));
  // A difference overrides.
  Push(2, 2, {Set(2, 50'002)});
  EXPECT_EQ(Port(2), 50'002);
  EXPECT_TRUE(table_.IsSteered(Id(2), 50'002));
}

TEST_F(PortTableTest, PortDrawnForAFlowOnEcmpSurvivesAFullPushThatDoesNotNameIt) {
  ASSERT_TRUE(table_.RerouteLocally(Set(3, 60'000)));
  Push(1, 1, {Set(1, 50'001)}, true);
  EXPECT_EQ(Port(3), 60'000);
  Push(1, 2, {}, false, {Id(3)});
  EXPECT_EQ(Port(3), 0);
}

TEST_F(PortTableTest, FlowsThatCannotBeAppliedAreNamed) {
  Push(1, 1, {Set(2, 50'002)});
  actuator_.refused = {Id(2)};
  EXPECT_EQ(Push(1, 2, {Set(1, 50'001), Set(2, 50'022), Set(99, 50'099)}), AckStatus::kFailed);
  EXPECT_THAT(last_ack_.failed_flows, ElementsAre(Id(2), Id(99)));
  EXPECT_EQ(Port(1), 50'001);
  EXPECT_EQ(Port(2), 50'002);
  EXPECT_EQ(table_.Find(Id(2))->paths[0].source_port, 50'002);
  EXPECT_EQ(table_.applied_generation(), 2u);
}

TEST_F(PortTableTest, PredictedPortWaitsForItsFlow) {
  EXPECT_EQ(Push(1, 1, {Set(9, 50'009, wire::PathReason::kPredicted)}), AckStatus::kApplied);
  EXPECT_EQ(table_.Find(Id(9)), nullptr);
  Open(9);
  EXPECT_EQ(Port(9), 50'009);
  ASSERT_NE(table_.Find(Id(9)), nullptr);
  End(9);
  EXPECT_EQ(table_.Find(Id(9)), nullptr);
}

TEST_F(PortTableTest, EmptyPathSetIsAWithdrawal) {
  Push(1, 1, {Set(1, 50'001)});
  wire::PathSet none;
  none.flow = Id(1);
  EXPECT_EQ(Push(1, 2, {none}), AckStatus::kApplied);
  EXPECT_EQ(Port(1), 0);
  EXPECT_EQ(table_.Find(Id(1)), nullptr);
}

TEST_F(PortTableTest, PathsOfAnEarlierAgentAreAdoptedUntilTheyAreWithdrawn) {
  for (const std::uint64_t id : {5, 6}) {
    source_.flows[Id(id)] = {.id = Id(id), .job = {}, .kept = Set(id, 50'005)};
  }
  table_.HandleFlows(source_.Flows());
  ASSERT_NE(table_.Find(Id(5)), nullptr);
  EXPECT_TRUE(table_.IsSteered(Id(5), 50'005));
  EXPECT_EQ(actuator_.calls, 0);  // nothing moves
  EXPECT_EQ(Push(3, 1, {Set(1, 50'001)}), AckStatus::kNeedFull);
  EXPECT_EQ(Push(3, 1, {Set(5, 50'005)}, true), AckStatus::kApplied);
  EXPECT_EQ(actuator_.calls, 1);  // the sixth is on ECMP
  table_.HandleFlows(source_.Flows());
  EXPECT_TRUE(table_.IsSteered(Id(5), 50'005));
  EXPECT_EQ(table_.Find(Id(6)), nullptr);
  table_.Expire();
  table_.HandleFlows(source_.Flows());
  EXPECT_EQ(table_.Find(Id(5)), nullptr);
}

TEST_F(PortTableTest, ExpiryClearsAllAndAsksForAFullPush) {
  Push(1, 1, {Set(1, 50'001), Set(2, 50'002)});
  ASSERT_TRUE(table_.RerouteLocally(Set(3, 60'000)));
  EXPECT_EQ(table_.Expire(), 3u);
  EXPECT_THAT(actuator_.ports, IsEmpty());
  EXPECT_EQ(table_.highest_epoch(), 1u);
  EXPECT_EQ(table_.applied_generation(), 0u);
  EXPECT_EQ(Push(1, 2, {Set(1, 50'001)}), AckStatus::kNeedFull);
  EXPECT_EQ(Push(1, 2, {Set(1, 50'001)}, true), AckStatus::kApplied);
}

// Whatever is lost, repeated or delayed, an agent that answers kNeedFull ends with the sender's
// path sets once a full push arrives.
TEST_F(PortTableTest, AgreesWithTheSenderAfterAnyLossAndRepetition) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 200; ++round) {
    PortTable table(actuator_);
    actuator_.ports.clear();
    std::map<wire::LocalFlowId, std::uint16_t> plan;
    std::vector<wire::PathPush> history;
    std::uint64_t generation = 0;
    bool wants_full = false;
    for (int step = 0; step < 30; ++step) {
      wire::PathPush push{.epoch = 1, .generation = ++generation, .sets = {}, .withdrawn = {}};
      const std::uint64_t flow = 1 + random() % 4;
      if (random() % 3 == 0) {
        plan.erase(Id(flow));
        push.withdrawn = {Id(flow)};
      } else {
        const auto port = static_cast<std::uint16_t>(50'000 + random() % 1000);
        plan[Id(flow)] = port;
        push.sets = {Set(flow, port)};
      }
      if (wants_full || step == 29) {
        push.full = true;
        push.withdrawn.clear();
        push.sets.clear();
        for (const auto& [id, port] : plan) push.sets.push_back(Set(id.value(), port));
      }
      history.push_back(push);
      if (step < 29 && random() % 4 == 0) continue;  // lost
      const AckStatus status = table.HandlePush(push).status;
      wants_full = status == AckStatus::kNeedFull;
      if (status == AckStatus::kApplied) {
        EXPECT_EQ(actuator_.ports, plan);
      }
      if (random() % 4 == 0) table.HandlePush(history[random() % history.size()]);
    }
    EXPECT_EQ(actuator_.ports, plan) << "round " << round;
  }
}

TEST_F(PortTableTest, ActuatorNeverSeesStandbys) {
  EXPECT_EQ(Push(1, 1, {WithStandby(Set(1, 50'001), 50'002)}), AckStatus::kApplied);
  EXPECT_EQ(actuator_.last.at(Id(1)).paths.size(), 1u);
  EXPECT_EQ(table_.Find(Id(1))->paths.size(), 1u);
  ASSERT_EQ(table_.StandbysOf(Id(1)).size(), 1u);
  EXPECT_EQ(table_.StandbysOf(Id(1))[0].source_port, 50'002);
  EXPECT_THAT(table_.StandbysOf(Id(2)), IsEmpty());
}

TEST_F(PortTableTest, AStandbyThatAFlowHasLeftIsNoneUntilTheNextPush) {
  Push(1, 1, {WithStandby(Set(1, 50'001), 50'002)});
  ASSERT_TRUE(table_.RerouteLocally(Set(1, 50'002)));
  ASSERT_TRUE(table_.RerouteLocally(Set(1, 50'009)));
  EXPECT_THAT(table_.StandbysOf(Id(1)), IsEmpty());
  Push(1, 2, {WithStandby(Set(1, 50'001), 50'002)});
  EXPECT_EQ(table_.StandbysOf(Id(1)).size(), 1U);
}

TEST_F(PortTableTest, NewStandbysLeaveALocalRerouteInForce) {
  Push(1, 1, {WithStandby(Set(1, 50'001), 50'002)});
  ASSERT_TRUE(table_.RerouteLocally(Set(1, 50'002)));
  const int calls = actuator_.calls;
  Push(1, 2, {WithStandby(Set(1, 50'001), 50'003, wire::PathReason::kStandby)});
  EXPECT_EQ(Port(1), 50'002);
  EXPECT_EQ(actuator_.calls, calls);
  EXPECT_EQ(table_.StandbysOf(Id(1))[0].source_port, 50'003);
  // A full push that repeats the path does not, either.
  Push(1, 3, {WithStandby(Set(1, 50'001), 50'004)}, /*full=*/true);
  EXPECT_EQ(Port(1), 50'002);
  EXPECT_EQ(table_.StandbysOf(Id(1))[0].source_port, 50'004);
  // A decision does.
  Push(1, 4, {WithStandby(Set(1, 50'001), 50'004)});
  EXPECT_EQ(Port(1), 50'001);
}

// As after an upgrade of the controller, or by a controller that numbers them otherwise.
TEST_F(PortTableTest, LinksAloneMoveNothing) {
  Push(1, 1, {WithStandby(Set(1, 50'001), 50'002)});
  wire::PathSet told = WithStandby(Set(1, 50'001), 50'002);
  told.paths[0].links = {1, 2};
  told.paths[1].links = {3, 4};
  const int calls = actuator_.calls;
  Push(2, 1, {told}, /*full=*/true);
  EXPECT_EQ(actuator_.calls, calls);
  EXPECT_EQ(table_.Find(Id(1))->paths[0].links, told.paths[0].links);
  EXPECT_EQ(table_.StandbysOf(Id(1))[0].links, told.paths[1].links);
  // The path in force is that of the standby now.
  ASSERT_TRUE(table_.RerouteLocally(Set(1, 50'002)));
  Push(3, 1, {told}, /*full=*/true);
  EXPECT_EQ(Port(1), 50'002);
  EXPECT_EQ(table_.Find(Id(1))->paths[0].links, told.paths[1].links);
}

TEST_F(PortTableTest, NewStandbysOfAnotherPathBringThatPath) {
  Push(1, 1, {Set(1, 50'001)});
  Push(1, 2, {WithStandby(Set(1, 50'005), 50'002, wire::PathReason::kStandby)});
  EXPECT_EQ(Port(1), 50'005);
}

TEST_F(PortTableTest, StandbysWaitWithThePathOfAFlowThatOpensLater) {
  EXPECT_EQ(Push(1, 1, {WithStandby(Set(9, 50'001), 50'002, wire::PathReason::kPredicted)}),
            AckStatus::kApplied);
  Open(9);
  EXPECT_EQ(Port(9), 50'001);
  EXPECT_EQ(actuator_.last.at(Id(9)).paths.size(), 1u);
  EXPECT_EQ(table_.StandbysOf(Id(9)).size(), 1u);
}

}  // namespace
}  // namespace espalier::agent
