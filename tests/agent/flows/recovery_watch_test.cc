// From leaving a dead path until bytes are acknowledged again.
#include "agent/flows/guard/recovery_watch.h"

#include <gmock/gmock.h>

#include "tests/agent/agent_fixture.h"

namespace espalier::agent {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

class RecoveryWatchTest : public AgentTest {
 protected:
  RecoveryWatchTest() {
    Sync();
    Open(1);
    Push(Difference(1, 1, {Set(1, 50'000)}));
    Sample().outstanding_bytes = 1 << 20;
    Live(10 * kMs);
  }
  FlowSample& Sample() { return source_.flows.at(wire::LocalFlowId(1)); }
  // The controller takes the flow off its dead path.
  void MoveOffDeadPath(std::uint64_t generation, std::uint16_t port) {
    wire::PathSet set = Set(1, port);
    set.reason = wire::PathReason::kPathDead;
    Push(Difference(1, generation, {set}));
  }
  std::vector<wire::FlowHealth> Recovered() {
    std::vector<wire::FlowHealth> all;
    for (const wire::PathHealth& health : bus_.Take<wire::PathHealth>()) {
      for (const wire::FlowHealth& flow : health.flows) {
        if (flow.recovered_us != 0) all.push_back(flow);
      }
    }
    return all;
  }
};

TEST_F(RecoveryWatchTest, TellsHowLongTheTransportWaitedAfterTheMove) {
  MoveOffDeadPath(2, 50'001);
  Live(70 * kMs);
  EXPECT_THAT(Recovered(), IsEmpty());  // moved, and still nothing is acknowledged
  Sample().sent_bytes += 4096;
  Live(10 * kMs);
  const auto recovered = Recovered();
  ASSERT_THAT(recovered, SizeIs(1));
  EXPECT_EQ(recovered[0].flow, wire::LocalFlowId(1));
  EXPECT_GE(recovered[0].recovered_us, 70'000U);
  EXPECT_LE(recovered[0].recovered_us, 80'000U);
  Sample().sent_bytes += 4096;
  Live(10 * kMs);
  EXPECT_THAT(Recovered(), IsEmpty());  // told once
}

TEST_F(RecoveryWatchTest, ASecondMoveBeforeItRecoversDoesNotStartAgain) {
  MoveOffDeadPath(2, 50'001);
  Live(40 * kMs);
  MoveOffDeadPath(3, 50'002);
  Live(40 * kMs);
  Sample().sent_bytes += 4096;
  Live(10 * kMs);
  const auto recovered = Recovered();
  ASSERT_THAT(recovered, SizeIs(1));
  EXPECT_GE(recovered[0].recovered_us, 80'000U);
}

TEST_F(RecoveryWatchTest, MovesOfIdleFlowsAndOtherMovesAreNotWatched) {
  Push(Difference(1, 2, {Set(1, 50'001)}));  // not because of a dead path
  Sample().sent_bytes += 4096;
  Live(10 * kMs);
  EXPECT_THAT(Recovered(), IsEmpty());
  Sample().outstanding_bytes = Sample().remaining_bytes = 0;
  Live(10 * kMs);
  MoveOffDeadPath(3, 50'002);
  Live(10 * kMs);
  Sample().outstanding_bytes = 1 << 20;
  Sample().sent_bytes += 4096;
  Live(10 * kMs);
  EXPECT_THAT(Recovered(), IsEmpty());
}

TEST_F(RecoveryWatchTest, EveryPartOfASplitFlowMustMakeProgress) {
  Sample().max_paths = 2;
  wire::PathSet set = Set(1, 50'001);
  set.paths.push_back({.source_port = 50'002, .weight = 1, .path_id = 0, .encoding = {}});
  set.reason = wire::PathReason::kPathDead;
  Push(Difference(1, 2, {set}));
  Sample().ports = {{.source_port = 50'001, .outstanding_bytes = 1 << 19},
                    {.source_port = 50'002, .outstanding_bytes = 1 << 19}};
  Live(20 * kMs);
  Sample().sent_bytes += 4096;
  Sample().ports[0].sent_bytes += 4096;
  Live(20 * kMs);
  EXPECT_THAT(Recovered(), IsEmpty());
  Sample().sent_bytes += 4096;
  Sample().ports[0].sent_bytes += 4096;
  Sample().ports[1].sent_bytes += 4096;
  Live(4 * kMs);
  EXPECT_THAT(Recovered(), SizeIs(1));
}

TEST_F(RecoveryWatchTest, AFlowThatEndsIsForgotten) {
  MoveOffDeadPath(2, 50'001);
  Live(10 * kMs);
  source_.flows.clear();
  Live(20 * kMs);
  EXPECT_THAT(Recovered(), IsEmpty());
}

}  // namespace
}  // namespace espalier::agent
