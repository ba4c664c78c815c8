// Paths and ports of flows, compared with a simple model.
#include "controller/state/flows/flow_paths.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "common/fabric/builders.h"
#include "controller/prediction/start_assignment.h"
#include "controller/routing/model/assignment.h"
#include "controller/state/flows/flow_decisions.h"
#include "tests/seeds.h"

namespace espalier::controller {
namespace {

using SubflowId = SubflowId;

constexpr OnlineAssigner::Options kChains{.max_moves = 64};
constexpr std::uint16_t kPort = 0xC000;

// A fabric of four leaves of two hosts and three spines, and flows of one agent.
class Places {
 public:
  FlowSlot Open(int from, int to, std::size_t subflows, bool movable = true) {
    Flow flow;
    flow.agent = AgentId(0);
    flow.local = wire::LocalFlowId(next_++);
    flow.movable = movable;
    flow.key.source = Node("h" + std::to_string(from));
    flow.key.destination = Node("h" + std::to_string(to));
    flow.source_leaf = Node("leaf" + std::to_string(from / 2));
    flow.destination_leaf = Node("leaf" + std::to_string(to / 2));
    flow.subflows.resize(subflows);
    const FlowSlot slot = flows_.Open(std::move(flow));
    flow_paths_.Register(slot);
    decisions_.AddSubflows(slot);
    return slot;
  }
  void Close(FlowSlot slot) {
    decisions_.Release(slot);
    flows_.Close(slot);
  }
  const Subflow& SubflowAt(FlowSlot slot, std::size_t index = 0) {
    return flows_.At(slot).subflows[index];
  }
  fabric::NodeId Node(const std::string& name) const { return *topology_.FindNode(name); }

  fabric::Topology topology_ = *fabric::Topology::Build(
      *fabric::BuildLeafSpine({.spines = 3, .leaves = 4, .hosts_per_leaf = 2}));
  fabric::PathTable paths_{topology_};
  FabricView view_{topology_, paths_};
  FlowTable flows_;
  FlowPaths flow_paths_{view_, flows_};
  Connections connections_{topology_, flows_};
  PushQueue pushes_{flows_};
  FlowDecisions decisions_{topology_, paths_, flows_, flow_paths_, connections_, pushes_};

 private:
  std::uint64_t next_ = 1;
};

TEST(FlowPaths, ASubflowHasAnIdFromAddToRemoveAndAPathInBetween) {
  Places places;
  const FlowSlot slot = places.Open(0, 2, 2);
  FlowPaths& paths = places.flow_paths_;
  EXPECT_EQ(paths.PathOf(places.SubflowAt(slot)), std::nullopt);
  places.decisions_.Place(slot, 0, 2);
  EXPECT_EQ(paths.PathOf(places.SubflowAt(slot)), fabric::PathIndex(2));
  EXPECT_EQ(paths.PathOf(places.SubflowAt(slot, 1)), std::nullopt);
  places.decisions_.Remove(slot, 0);
  EXPECT_EQ(places.SubflowAt(slot).id, std::nullopt);
  EXPECT_EQ(paths.PathOf(places.SubflowAt(slot)), std::nullopt);
  places.decisions_.Remove(slot, 0);  // it has no id: no effect
  paths.CheckInvariants();
}

TEST(FlowPaths, KnowsTheOwnerOfEachSubflow) {
  Places places;
  const FlowSlot slot = places.Open(0, 2, 2);
  const SubflowId second = *places.SubflowAt(slot, 1).id;
  EXPECT_EQ(places.flow_paths_.FlowOf(second), slot);
  EXPECT_EQ(places.flow_paths_.OwnerOf(second).index, 1U);
  const SubflowId reserved =
      places.flow_paths_.Reserve(places.Node("leaf0"), places.Node("leaf1"), 0, kLoadUnit);
  EXPECT_EQ(places.flow_paths_.OwnerOf(reserved).slot, std::nullopt);
  EXPECT_EQ(places.flow_paths_.owner_count(), 3U);
}

TEST(FlowPaths, ASubflowPutsItsShareOnEachLinkOfItsPath) {
  Places places;
  const FlowSlot slot = places.Open(0, 2, 3);
  places.decisions_.Place(slot, 0, 1);
  const auto link = fabric::DirectedLink{*places.topology_.FindLink("leaf0--spine1"), true};
  EXPECT_EQ(places.flow_paths_.assigner().LoadOf(link.Index()), kLoadUnit / 3);
  places.flow_paths_.Reserve(places.Node("leaf0"), places.Node("leaf3"), 1, 5);
  EXPECT_EQ(places.flow_paths_.assigner().LoadOf(link.Index()), kLoadUnit / 3 + 5);
}

TEST(FlowPaths, FingerprintsDoNotDependOnTheOrder) {
  Places one;
  Places other;
  const auto place = [](Places& places, FlowSlot slot, std::int32_t path) {
    places.decisions_.Place(slot, 0, path);
  };
  place(one, one.Open(0, 2, 1), 0);
  place(one, one.Open(0, 4, 1), 1);
  const FlowSlot last = other.Open(0, 4, 1);
  place(other, other.Open(0, 2, 1), 0);
  place(other, last, 2);
  EXPECT_NE(one.flow_paths_.fingerprint(), other.flow_paths_.fingerprint());
  place(other, last, 1);
  EXPECT_EQ(one.flow_paths_.fingerprint(), other.flow_paths_.fingerprint());
  EXPECT_EQ(one.flow_paths_.fingerprint(),
            PathFingerprint(0, 1, 0, kLoadUnit) + PathFingerprint(0, 2, 1, kLoadUnit));
}

// Parks or wakes all subflows of a flow, as Bursts does.
void SetParked(Places& places, FlowSlot slot, bool parked) {
  parked ? places.decisions_.Park(slot) : places.decisions_.Wake(slot, false);
}

TEST(FlowPaths, AParkedFlowKeepsItsPathAndAddsNoLoad) {
  Places places;
  FlowPaths& paths = places.flow_paths_;
  const FlowSlot slot = places.Open(0, 2, 2);
  places.decisions_.Place(slot, 0, 1);
  places.decisions_.Place(slot, 1, 2);
  const std::uint64_t fingerprint = paths.fingerprint();
  SetParked(places, slot, true);
  paths.CheckInvariants();
  EXPECT_TRUE(paths.IsParked(places.SubflowAt(slot)));
  EXPECT_EQ(paths.PathOf(places.SubflowAt(slot)), fabric::PathIndex(1));
  EXPECT_EQ(paths.fingerprint(), 0U);
  EXPECT_TRUE(std::ranges::all_of(paths.assigner().Loads(), [](auto load) { return load == 0; }));
  places.decisions_.Place(slot, 0, 0);  // moves while it is parked
  EXPECT_EQ(paths.fingerprint(), 0U);
  EXPECT_EQ(paths.PathOf(places.SubflowAt(slot)), fabric::PathIndex(0));
  places.decisions_.Place(slot, 0, 1);
  SetParked(places, slot, false);
  EXPECT_EQ(paths.fingerprint(), fingerprint);
  paths.CheckInvariants();
  SetParked(places, slot, true);
  places.Close(slot);
  paths.CheckInvariants();
}

// The shares of a flow count on its paths, whether it is parked or not.
TEST(FlowPaths, DividedFlowsLoadTheirPathsByTheirShares) {
  for (const bool parked : {false, true}) {
    Places places;
    FlowPaths& paths = places.flow_paths_;
    const FlowSlot slot = places.Open(0, 2, 2);
    const Flow& flow = places.flows_.At(slot);
    for (const std::uint32_t i : {0U, 1U}) {
      places.decisions_.Place(slot, i, static_cast<std::int32_t>(i));
    }
    if (parked) SetParked(places, slot, true);
    const std::vector<std::int64_t> shares = {kLoadUnit / 3, 2 * kLoadUnit / 3};
    places.decisions_.Divide(slot, shares, false);
    paths.CheckInvariants();
    const auto load_on = [&](const char* link) {
      const fabric::DirectedLink up{.link = *places.topology_.FindLink(link)};
      return paths.LoadIfAllAreBusy(up.Index());
    };
    EXPECT_EQ(load_on("leaf0--spine0"), shares[0]);
    EXPECT_EQ(load_on("leaf0--spine1"), shares[1]);
    EXPECT_EQ(paths.IsParked(flow.subflows[0]), parked);
    if (parked) SetParked(places, slot, false);
    places.decisions_.Divide(slot, {}, false);
    EXPECT_EQ(load_on("leaf0--spine0"), kLoadUnit / 2);
    paths.CheckInvariants();
  }
}

TEST(FlowPaths, ArrivalsTakeThePlacesOfParkedFlowsWithoutMovingThem) {
  Places places;
  FlowPaths& paths = places.flow_paths_;
  const FlowSlot parked = places.Open(0, 2, 1);
  places.decisions_.Place(parked, 0, 0);
  SetParked(places, parked, true);
  const FlowSlot arrival = places.Open(1, 3, 1);
  const std::vector<SubflowId> subflows{*places.SubflowAt(arrival).id};
  ASSERT_EQ(paths.PlaceArrivals(subflows, kChains).size(), 1U);
  EXPECT_EQ(paths.PathOf(places.SubflowAt(arrival)), fabric::PathIndex(0));
  EXPECT_EQ(paths.PathOf(places.SubflowAt(parked)), fabric::PathIndex(0));
  SetParked(places, parked, false);
  EXPECT_FALSE(IsWithinLimits(paths, places.SubflowAt(parked)));
  paths.CheckInvariants();
}

TEST(FlowPaths, AParkedFlowKnowsWhetherItsPathIsUsable) {
  Places places;
  const FlowSlot slot = places.Open(0, 2, 1);
  EXPECT_FALSE(places.flow_paths_.IsOnUsablePath(places.SubflowAt(slot)));
  places.decisions_.Place(slot, 0, 1);
  SetParked(places, slot, true);
  EXPECT_TRUE(places.flow_paths_.IsOnUsablePath(places.SubflowAt(slot)));
  places.topology_.SetLinkState(*places.topology_.FindLink("leaf1--spine1"),
                                fabric::LinkState::kDown);
  places.view_.Refresh();
  places.flow_paths_.HandleLinkChange();
  EXPECT_FALSE(places.flow_paths_.IsOnUsablePath(places.SubflowAt(slot)));
}

// No chain moves a held flow. A flow that cannot be moved is always held.
TEST(FlowPaths, HeldFlowsStayWhereTheyAre) {
  for (const bool movable : {true, false}) {
    Places places;
    FlowPaths& paths = places.flow_paths_;
    const FlowSlot first = places.Open(0, 2, 1, movable);
    const FlowSlot second = places.Open(0, 4, 1, movable);
    for (const FlowSlot slot : {first, second}) {
      places.decisions_.Place(slot, 0, 0);
      places.decisions_.SetInProgress(slot);
      places.decisions_.Hold(slot, true);
    }
    EXPECT_TRUE(paths.Rebalance(kChains).empty());
    for (const FlowSlot slot : {first, second}) places.decisions_.Hold(slot, false);
    EXPECT_EQ(paths.Rebalance(kChains).size(), movable ? 1U : 0U);
    paths.CheckInvariants();
  }
}

TEST(FlowPaths, RegistersFlowsByTheKeyOfTheirPorts) {
  Places places;
  const FlowSlot first = places.Open(0, 2, 1);
  const FlowSlot second = places.Open(0, 2, 1);
  const fabric::PortKey key = places.flows_.At(first).key;
  EXPECT_EQ(places.flow_paths_.pairs().at(key), (std::vector{first, second}));
  places.Close(first);
  EXPECT_EQ(places.flow_paths_.pairs().at(key), std::vector{second});
  places.Close(second);
  EXPECT_TRUE(places.flow_paths_.pairs().empty());
}

TEST(FlowPaths, NoTwoFlowsOfAKeyShareAPort) {
  Places places;
  FlowPaths& paths = places.flow_paths_;
  const fabric::PortKey key = places.flows_.At(places.Open(0, 2, 1)).key;
  EXPECT_TRUE(paths.TakePort(key, kPort));
  EXPECT_FALSE(paths.TakePort(key, kPort));
  EXPECT_TRUE(paths.TakePort({.source = key.destination, .destination = key.source}, kPort));
  EXPECT_TRUE(paths.ExchangePort(key, kPort, kPort + 1));
  EXPECT_TRUE(paths.TakePort(key, kPort));
  EXPECT_FALSE(paths.ExchangePort(key, kPort, kPort + 1));
  EXPECT_TRUE(paths.ports().IsTaken(key, kPort));
  paths.ReleasePort(key, kPort);
  EXPECT_FALSE(paths.ports().IsTaken(key, kPort));
}

// CheckInvariants detects violations.
TEST(FlowPathsDeathTest, ChecksThatPortsOfSubflowsAreTaken) {
  Places places;
  const FlowSlot slot = places.Open(0, 2, 1);
  places.decisions_.ports().Set(slot, 0, kPort, fabric::PathIndex(0));
  places.flow_paths_.ReleasePort(places.flows_.At(slot).key, kPort);
  EXPECT_DEATH(places.flow_paths_.CheckInvariants(), "port 49152 is free");
}
TEST(FlowPathsDeathTest, ChecksThatSubflowsBelongToTheirOwners) {
  Places places;
  const FlowSlot slot = places.Open(0, 2, 1);
  places.flow_paths_.Place(places.flow_paths_.Add(slot, 0), 0);  // it has another id
  EXPECT_DEATH(places.flow_paths_.CheckInvariants(), "is not recorded in its flow");
}

// Random operations; paths, loads and fingerprint are compared with a map of paths.
class Storm {
 public:
  explicit Storm(std::uint64_t seed) : random_(seed) {}

  void Step() {
    const std::uint64_t changes = flow_paths().changes();
    const std::map<SubflowId, std::int32_t> before = model_;
    switch (Draw(10)) {
      case 0:
      case 1:
        return Open();
      case 2:
        Close();
        break;
      case 3:
        PlaceOne();
        break;
      case 4:
        PlaceArrivals();
        break;
      case 5:
        Follow(flow_paths().Rebalance(kChains));
        break;
      case 6:
        ReserveOrNot();
        break;
      case 7:
        ChangeLink();
        break;
      case 8:
        Divide();
        break;
      default:
        TryStarts();
        ChangePort();
    }
    EXPECT_TRUE(model_ == before || flow_paths().changes() > changes);
  }

  void Check() {
    flow_paths().CheckInvariants();
    std::uint64_t fingerprint = 0;
    std::vector<std::int64_t> loads(2 * places_.topology_.links().size());
    const auto add = [&](SubflowId subflow, fabric::NodeId from, fabric::NodeId to,
                         std::int64_t load) {
      const auto found = model_.find(subflow);
      ASSERT_EQ(flow_paths().assigner().PathOf(subflow),
                found == model_.end() ? kNoPath : found->second);
      if (found == model_.end()) return;
      fingerprint += PathFingerprint(*places_.view_.LeafOf(from), *places_.view_.LeafOf(to),
                                     found->second, load);
      const auto between = places_.paths_.Between(from, to);
      for (const auto hop : between[static_cast<std::size_t>(found->second)].hops) {
        loads[hop.Index()] += load;
      }
    };
    for (const FlowSlot slot : open_) {
      const Flow& flow = places_.flows_.At(slot);
      for (const Subflow& subflow : flow.subflows) {
        add(*subflow.id, flow.source_leaf, flow.destination_leaf, ShareOf(flow, subflow));
      }
    }
    for (const Reservation& one : reserved_) add(one.subflow, one.from, one.to, one.load);
    EXPECT_EQ(flow_paths().fingerprint(), fingerprint);
    EXPECT_EQ(flow_paths().assigner().Loads(), loads);
    EXPECT_EQ(places_.flows_.All().size(), open_.size());
  }

 private:
  struct Reservation {
    SubflowId subflow;
    fabric::NodeId from;
    fabric::NodeId to;
    std::int64_t load;
  };

  FlowPaths& flow_paths() { return places_.flow_paths_; }
  std::size_t Draw(std::size_t bound) { return random_() % bound; }
  FlowSlot AnyFlow() { return open_[Draw(open_.size())]; }

  void Follow(std::span<const FlowPaths::Move> moves) {
    for (const FlowPaths::Move& move : moves) {
      const auto found = model_.find(move.subflow);
      EXPECT_EQ(move.from, found == model_.end() ? kNoPath : found->second);
      model_[move.subflow] = move.to;
    }
  }
  void Open() {
    const int from = static_cast<int>(Draw(8));
    const int to = static_cast<int>(Draw(8));
    if (from / 2 == to / 2) return;
    const std::size_t subflows = 1 + Draw(3);
    open_.push_back(places_.Open(from, to, subflows, Draw(4) > 0));
    if (Draw(2) == 0) places_.decisions_.SetInProgress(open_.back());
  }
  void Close() {
    if (open_.empty()) return;
    const FlowSlot slot = AnyFlow();
    for (const Subflow& subflow : places_.flows_.At(slot).subflows) model_.erase(*subflow.id);
    places_.Close(slot);
    std::erase(open_, slot);
  }
  void PlaceOne() {
    if (open_.empty()) return;
    const FlowSlot slot = AnyFlow();
    const Flow& flow = places_.flows_.At(slot);
    const auto index = static_cast<std::uint32_t>(Draw(flow.subflows.size()));
    const auto path = static_cast<std::int32_t>(Draw(4)) - 1;
    places_.decisions_.Place(slot, index, path);
    Set(*flow.subflows[index].id, path);
  }
  void Divide() {
    if (open_.empty()) return;
    const FlowSlot slot = AnyFlow();
    const Flow& flow = places_.flows_.At(slot);
    std::vector<std::int64_t> shares(flow.subflows.size(), 1);
    std::int64_t left = kLoadUnit - static_cast<std::int64_t>(shares.size());
    for (std::int64_t& share : shares) {
      const auto more = static_cast<std::int64_t>(Draw(static_cast<std::size_t>(left) + 1));
      share += more;
      left -= more;
    }
    shares.back() += left;
    const bool are_equal = Draw(3) == 0;
    places_.decisions_.Divide(slot, are_equal ? std::span<const std::int64_t>() : shares, false);
    const auto each = kLoadUnit / static_cast<std::int64_t>(shares.size());
    for (std::size_t i = 0; i < shares.size(); ++i) {
      EXPECT_EQ(ShareOf(flow, flow.subflows[i]), are_equal ? each : shares[i]);
    }
  }
  void Set(SubflowId subflow, std::int32_t path) {
    model_.erase(subflow);
    if (path != kNoPath) model_[subflow] = path;
  }
  void PlaceArrivals() {
    std::vector<SubflowId> subflows;
    for (const FlowSlot slot : open_) {
      for (const Subflow& subflow : places_.flows_.At(slot).subflows) {
        if (!model_.contains(*subflow.id)) subflows.push_back(*subflow.id);
      }
    }
    Follow(flow_paths().PlaceArrivals(subflows, kChains));
  }
  void ReserveOrNot() {
    if (!reserved_.empty() && Draw(2) == 0) {
      const std::size_t which = Draw(reserved_.size());
      flow_paths().Unreserve(reserved_[which].subflow);
      model_.erase(reserved_[which].subflow);
      reserved_.erase(reserved_.begin() + static_cast<std::ptrdiff_t>(which));
      return;
    }
    const fabric::NodeId from = places_.Node("leaf" + std::to_string(Draw(2)));
    const fabric::NodeId to = places_.Node("leaf" + std::to_string(2 + Draw(2)));
    const auto path = static_cast<std::int32_t>(Draw(3));
    const auto load = static_cast<std::int64_t>(1 + Draw(kLoadUnit));
    reserved_.push_back({flow_paths().Reserve(from, to, path, load), from, to, load});
    model_[reserved_.back().subflow] = path;
  }
  // Nothing moves; the subflows on lost links are returned.
  void ChangeLink() {
    const auto link = *places_.topology_.FindLink("leaf" + std::to_string(Draw(4)) + "--spine" +
                                                  std::to_string(Draw(3)));
    const bool is_up = places_.topology_.link(link).state == fabric::LinkState::kUp;
    places_.topology_.SetLinkState(link, is_up ? fabric::LinkState::kDown : fabric::LinkState::kUp);
    places_.view_.Refresh();
    for (const SubflowId subflow : flow_paths().HandleLinkChange())
      EXPECT_TRUE(model_.contains(subflow));
  }
  void TryStarts() {
    const std::uint64_t changes = flow_paths().changes();
    const std::vector<PredictedStart> starts = {{0, 1, 2}, {2, 3, 1}, {0, 3, 1}};
    const StartAssignment plan = flow_paths().Try([&](OnlineAssigner& assigner) {
      return AssignPredictedStarts(assigner, starts, {}, kChains);
    });
    EXPECT_EQ(plan.paths.size(), 4U);
    EXPECT_EQ(flow_paths().changes(), changes);
    if (Draw(2) > 0) return;
    flow_paths().Take(plan.moves);
    Follow(plan.moves);
  }
  void ChangePort() {
    if (open_.empty()) return;
    const FlowSlot slot = AnyFlow();
    const Flow& flow = places_.flows_.At(slot);
    const auto index = static_cast<std::uint32_t>(Draw(flow.subflows.size()));
    const std::uint16_t before = flow.subflows[index].port;
    const auto port = static_cast<std::uint16_t>(kPort + Draw(4));
    const bool was_free = !flow_paths().ports().IsTaken(flow.key, port);
    const bool taken = places_.decisions_.ports().Exchange(slot, index, port, fabric::PathIndex(0));
    EXPECT_TRUE(taken == was_free || port == before);
    EXPECT_EQ(flow.subflows[index].port, taken ? port : before);
  }

  std::mt19937_64 random_;
  Places places_;
  std::vector<FlowSlot> open_;
  std::vector<Reservation> reserved_;
  std::map<SubflowId, std::int32_t> model_;
};

TEST(FlowPaths, AgreesWithAModelUnderRandomUse) {
  for (const std::uint64_t seed : SeedsToTry(1, 10)) {
    SCOPED_TRACE("ESPALIER_SEED=" + std::to_string(seed));
    Storm storm(seed);
    for (int step = 0; step < 400; ++step) {
      storm.Step();
      storm.Check();
      ASSERT_FALSE(testing::Test::HasFailure()) << "step " << step;
    }
  }
}

}  // namespace
}  // namespace espalier::controller
