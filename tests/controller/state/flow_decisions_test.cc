#include "controller/state/flows/flow_decisions.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "common/fabric/builders.h"
#include "controller/state/state.h"
#include "tests/seeds.h"

namespace espalier::controller {
namespace {

constexpr std::uint16_t kFirstPort = 0xC000;

// Four leaves of two hosts and three spines.
class Decided {
 public:
  // A flow that was admitted, on these ports if it was steered before.
  FlowSlot Open(int from, int to, std::size_t subflows,
                const std::vector<std::uint16_t>& ports = {}, bool movable = true) {
    Flow flow;
    flow.agent = state_.agents.Intern("h" + std::to_string(from));
    flow.local = wire::LocalFlowId(next_);
    flow.local_qpn = flow.remote_qpn = next_++;
    flow.movable = movable;
    const fabric::NodeId source = Node("h" + std::to_string(from));
    const fabric::NodeId destination = Node("h" + std::to_string(to));
    flow.source_address = state_.topology.node(source).addresses.front();
    flow.destination_address = state_.topology.node(destination).addresses.front();
    const FlowSlot slot = state_.flows.Open(std::move(flow));
    state_.decisions.SetEnds(slot, {.source = source, .destination = destination},
                             Node("leaf" + std::to_string(from / 2)),
                             Node("leaf" + std::to_string(to / 2)));
    state_.decisions.Admit(slot, subflows, ports);
    return slot;
  }
  // A flow on these paths, with a port for each.
  FlowSlot OpenRouted(int from, int to, const std::vector<std::int32_t>& paths) {
    const FlowSlot slot = Open(from, to, paths.size());
    for (std::uint32_t i = 0; i < paths.size(); ++i) {
      decisions().Place(slot, i, paths[i]);
      decisions().ports().Set(slot, i,
                              static_cast<std::uint16_t>(kFirstPort + 16 * slot.value() + i),
                              fabric::PathIndex(paths[i]));
    }
    decisions().FinishPorts(slot, wire::PathReason::kAssigned, true);
    decisions().SetInProgress(slot);
    return slot;
  }
  void Close(FlowSlot slot) {
    decisions().Release(slot);
    state_.flows.Close(slot);
  }
  void SetLink(const std::string& link, fabric::LinkState to) {
    state_.topology.SetLinkState(*state_.topology.FindLink(link), to);
    state_.view.Refresh();
    state_.flow_paths.HandleLinkChange();
  }
  fabric::NodeId Node(const std::string& name) const { return *state_.topology.FindNode(name); }
  const Flow& At(FlowSlot slot) const { return state_.flows.At(slot); }
  std::optional<fabric::PathIndex> PathOf(FlowSlot slot, std::size_t index = 0) const {
    return state_.flow_paths.PathOf(At(slot).subflows[index]);
  }
  // Whether a push of the flow's decision is due; the next call knows of later ones.
  bool TakePush(FlowSlot slot) { return std::exchange(state_.flows.PushOf(slot).is_dirty, false); }
  FlowDecisions& decisions() { return state_.decisions; }

  State state_{*fabric::Topology::Build(
      *fabric::BuildLeafSpine({.spines = 3, .leaves = 4, .hosts_per_leaf = 2}))};

 private:
  std::uint32_t next_ = 1;
};

class FlowDecisionsTest : public testing::Test, protected Decided {};

TEST_F(FlowDecisionsTest, AFlowThatWasSteeredIsAdopted) {
  const FlowSlot slot = Open(0, 2, 2, {kFirstPort, 0});
  EXPECT_EQ(At(slot).status, FlowStatus::kAdopting);
  EXPECT_TRUE(At(slot).subflows[0].adopting);
  decisions().AdoptPath(slot, 0, fabric::PathIndex(2));
  EXPECT_EQ(PathOf(slot), fabric::PathIndex(2));
  decisions().FinishAdoption(slot);
  EXPECT_EQ(At(slot).status, FlowStatus::kNew) << "the second subflow has no path";
  EXPECT_TRUE(TakePush(slot));
  EXPECT_TRUE(state_.flow_paths.ports().IsTaken(At(slot).key, kFirstPort));
}

TEST_F(FlowDecisionsTest, APortOfADeadPathIsNotAdopted) {
  SetLink("leaf1--spine2", fabric::LinkState::kDown);
  const FlowSlot slot = Open(0, 2, 1, {kFirstPort});
  decisions().AdoptPath(slot, 0, fabric::PathIndex(2));
  EXPECT_EQ(At(slot).subflows[0].port, 0);
  EXPECT_TRUE(At(slot).subflows[0].urgent);
  EXPECT_EQ(PathOf(slot), std::nullopt);
  EXPECT_FALSE(state_.flow_paths.ports().IsTaken(At(slot).key, kFirstPort));
}

TEST_F(FlowDecisionsTest, AbandonedAdoptionFreesUnknownPorts) {
  const FlowSlot slot = Open(0, 2, 2, {kFirstPort, kFirstPort + 1});
  decisions().AdoptPath(slot, 0, fabric::PathIndex(0));
  decisions().AbandonAdoption(slot);
  EXPECT_EQ(At(slot).status, FlowStatus::kNew);
  EXPECT_EQ(At(slot).subflows[0].port, kFirstPort);
  EXPECT_EQ(At(slot).subflows[1].port, 0);
  EXPECT_FALSE(state_.flow_paths.ports().IsTaken(At(slot).key, kFirstPort + 1));
}

TEST_F(FlowDecisionsTest, AnUnsteeredFlowLosesItsPathsAndPorts) {
  const FlowSlot slot = OpenRouted(0, 2, {0, 1});
  decisions().LimitRate(slot, 9);
  decisions().Park(slot);
  TakePush(slot);
  decisions().Unsteer(slot);
  EXPECT_TRUE(TakePush(slot));
  EXPECT_EQ(At(slot).status, FlowStatus::kUnsteered);
  EXPECT_EQ(At(slot).max_rate_bps, 0U);
  EXPECT_FALSE(At(slot).is_parked);
  EXPECT_FALSE(PathOf(slot, 0) || PathOf(slot, 1));
  state_.flow_paths.CheckInvariants();
}

TEST_F(FlowDecisionsTest, PinsFollowWhetherAChainMayMoveTheFlow) {
  const FlowSlot slot = OpenRouted(0, 2, {0});
  const FlowSlot other = Open(0, 4, 1, {}, false);  // cannot move
  decisions().Place(other, 0, 0);
  decisions().SetInProgress(other);
  const auto is_pinned = [&] {
    decisions().Rebalance({.max_moves = 64, .max_in_progress_moves = 64});
    const bool has_moved = PathOf(slot) != fabric::PathIndex(0);
    decisions().Place(slot, 0, 0);
    return !has_moved;
  };
  EXPECT_FALSE(is_pinned());
  decisions().SetOnPlan(slot, true);
  EXPECT_TRUE(is_pinned());
  decisions().Hold(slot, false);
  EXPECT_TRUE(is_pinned()) << "it is on the plan";
  decisions().SetOnPlan(slot, false);
  EXPECT_FALSE(is_pinned());
  decisions().Hold(slot, true);
  EXPECT_TRUE(is_pinned());
  decisions().Hold(slot, false);
  decisions().Unsteer(slot);
  decisions().Observe(slot, fabric::PathIndex(0));
  EXPECT_TRUE(is_pinned()) << "nobody moves it";
}

TEST_F(FlowDecisionsTest, RemovingAPathTakesTheFlowOffItsPlan) {
  const FlowSlot slot = OpenRouted(0, 2, {0, 1});
  decisions().SetOnPlan(slot, true);
  decisions().Remove(slot, 1);
  EXPECT_FALSE(At(slot).is_on_plan);
}

TEST_F(FlowDecisionsTest, ALocalRerouteKeepsThePortThatWasLeftTaken) {
  const FlowSlot slot = OpenRouted(0, 2, {0});
  const std::uint16_t left = At(slot).subflows[0].port;
  const FlowSlot other = OpenRouted(0, 2, {1});
  EXPECT_FALSE(decisions().RerouteLocally(slot, 0, At(other).subflows[0].port));
  EXPECT_EQ(At(slot).status, FlowStatus::kRouted);
  EXPECT_TRUE(decisions().RerouteLocally(slot, 0, kFirstPort + 9));
  EXPECT_EQ(At(slot).status, FlowStatus::kAdopting);
  EXPECT_FALSE(decisions().MayMove(slot, Mover::kPlan));
  EXPECT_TRUE(state_.flow_paths.ports().IsTaken(At(slot).key, left));
  decisions().ports().Release(slot, left);
  decisions().EndLocalReroute(slot);
  EXPECT_TRUE(decisions().MayMove(slot, Mover::kPlan));
  state_.flow_paths.CheckInvariants();
}

TEST_F(FlowDecisionsTest, AnAnsweringFlowIsParkedUntilItStops) {
  const FlowSlot there = Open(0, 2, 1);
  Flow flow;  // the other end
  flow.agent = state_.agents.Intern("h2");
  flow.local_qpn = flow.remote_qpn = At(there).local_qpn;
  flow.source_address = At(there).destination_address;
  flow.destination_address = At(there).source_address;
  const FlowSlot back = state_.flows.Open(std::move(flow));
  decisions().SetEnds(back, {.source = Node("h2"), .destination = Node("h0")}, Node("leaf1"),
                      Node("leaf0"));
  decisions().Admit(back, 1, {});
  ASSERT_EQ(At(there).opposite, back);
  EXPECT_EQ(At(back).other_end, OtherEnd::kQuiet);
  decisions().Answer(back);
  EXPECT_TRUE(At(back).is_answering && At(back).is_parked);
  EXPECT_EQ(At(there).other_end, OtherEnd::kAnswers);
  EXPECT_TRUE(decisions().StopAnswering(back));
  EXPECT_FALSE(decisions().StopAnswering(back));
  EXPECT_EQ(At(there).other_end, OtherEnd::kSends);
  Close(back);
  EXPECT_EQ(At(there).opposite, std::nullopt);
  EXPECT_EQ(At(there).other_end, OtherEnd::kUnknown);
}

TEST_F(FlowDecisionsTest, ABackupPathIsUrgentOnlyIfThePathInUseIsDead) {
  const FlowSlot slot = OpenRouted(0, 2, {0, 1});
  SetLink("leaf0--spine0", fabric::LinkState::kDown);
  SetLink("leaf0--spine1", fabric::LinkState::kDrained);
  TakePush(slot);
  EXPECT_TRUE(decisions().TakeBackupPath(slot, 0, 2));
  EXPECT_FALSE(decisions().TakeBackupPath(slot, 1, 2));
  EXPECT_FALSE(TakePush(slot));
  decisions().FinishFailover(slot, wire::PathReason::kPathDead);
  EXPECT_TRUE(TakePush(slot));
  EXPECT_EQ(At(slot).origin, DecisionOrigin::kFailure);
  EXPECT_EQ(PathOf(slot, 1), fabric::PathIndex(2));
}

TEST_F(FlowDecisionsTest, StandbyPortsAreTakenAndFreed) {
  const FlowSlot slot = OpenRouted(0, 2, {0});
  decisions().ports().SetStandby(slot, 0, 1);
  decisions().ports().SetStandbyPort(slot, 0, kFirstPort + 5);
  EXPECT_TRUE(state_.flow_paths.ports().IsTaken(At(slot).key, kFirstPort + 5));
  decisions().ports().SetStandby(slot, 0, 2);
  EXPECT_EQ(At(slot).subflows[0].standby_port, 0);
  EXPECT_FALSE(state_.flow_paths.ports().IsTaken(At(slot).key, kFirstPort + 5));
}

// Random transitions; after each, what belongs together agrees.
class DecisionStorm : private Decided {
 public:
  explicit DecisionStorm(std::uint64_t seed) : random_(seed) {}

  void Step() {
    if (open_.empty() || (open_.size() < 24 && Draw(4) == 0)) return Arrive();
    const FlowSlot slot = open_[Draw(open_.size())];
    const auto index = static_cast<std::uint32_t>(Draw(At(slot).subflows.size()));
    const auto path = static_cast<std::int32_t>(Draw(3));
    const auto port = static_cast<std::uint16_t>(kFirstPort + Draw(64));
    switch (Draw(14)) {
      case 0:
        std::erase(open_, slot);
        return Close(slot);
      case 1:
        return decisions().Place(slot, index, path);
      case 2:
        return decisions().Remove(slot, index);
      case 3:
        return decisions().Park(slot);
      case 4:
        return decisions().Wake(slot, Draw(2) == 0);
      case 5:
        return decisions().SetInProgress(slot);
      case 6:
        return decisions().Unsteer(slot);
      case 7:
        return decisions().DropBrokenPaths(slot);
      case 8:
        return decisions().MarkUnroutable(slot, wire::PathReason::kPathDead);
      case 9:
        if (state_.flow_paths.ports().IsTaken(At(slot).key, port)) return;
        return decisions().ports().Set(slot, index, port, fabric::PathIndex(path));
      case 10:
        return Reroute(slot, index, port);
      case 11:
        return Divide(slot);
      case 12:
        return decisions().SetOnPlan(slot, Draw(2) == 0);
      default:
        decisions().Rebalance({.max_moves = 64});
    }
  }
  void Check() const {
    state_.flow_paths.CheckInvariants();
    for (const FlowSlot slot : open_) {
      const Flow& flow = At(slot);
      for (const Subflow& subflow : flow.subflows) {
        EXPECT_TRUE(flow.status != FlowStatus::kUnsteered || !subflow.adopting);
        EXPECT_TRUE(!subflow.id || state_.flow_paths.FlowOf(*subflow.id) == slot);
      }
    }
  }

 private:
  std::size_t Draw(std::size_t bound) { return random_() % bound; }
  void Arrive() {
    const int from = static_cast<int>(Draw(8));
    const int to = static_cast<int>(Draw(8));
    if (from / 2 == to / 2) return;
    std::vector<std::uint16_t> ports;
    if (Draw(3) == 0) ports.push_back(static_cast<std::uint16_t>(kFirstPort + Draw(64)));
    const std::size_t subflows = 1 + Draw(3);
    open_.push_back(Open(from, to, subflows, ports, Draw(4) > 0));
  }
  void Reroute(FlowSlot slot, std::uint32_t index, std::uint16_t port) {
    const std::uint16_t left = At(slot).subflows[index].port;
    const bool is_free = !state_.flow_paths.ports().IsTaken(At(slot).key, port);
    EXPECT_EQ(decisions().RerouteLocally(slot, index, port), is_free);
    if (is_free && left != 0) decisions().ports().Release(slot, left);
  }
  void Divide(FlowSlot slot) {
    std::vector<std::int64_t> shares(At(slot).subflows.size(), 1);
    shares.front() = kLoadUnit - static_cast<std::int64_t>(shares.size()) + 1;
    decisions().Divide(slot, Draw(2) == 0 ? std::span<const std::int64_t>() : shares, true);
    EXPECT_TRUE(TakePush(slot));
  }

  std::mt19937_64 random_;
  std::vector<FlowSlot> open_;
};

TEST(FlowDecisions, KeepWhatBelongsTogetherInStepUnderRandomTransitions) {
  for (const std::uint64_t seed : SeedsToTry(1, 10)) {
    SCOPED_TRACE("ESPALIER_SEED=" + std::to_string(seed));
    DecisionStorm storm(seed);
    for (int step = 0; step < 400; ++step) {
      storm.Step();
      storm.Check();
      ASSERT_FALSE(testing::Test::HasFailure()) << "step " << step;
    }
  }
}

}  // namespace
}  // namespace espalier::controller
