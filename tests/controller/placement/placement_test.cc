// What moves and what stays, flows over several paths, and what the operator is told of it.
#include "controller/placement/placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "tests/controller/cluster.h"

namespace espalier::controller {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;
using testing::UnorderedElementsAre;

constexpr const char* kMoved = "espalier_controller_flows_moved_total";

// Four leaves with a host each, two spines. Host 2's flow to host 3 is on spine 1, host 0's flow to
// host 1 on spine 0; what starts from host 0 to host 3 finds both spines taken, one at each end.
class Corner : public testing::Test {
 protected:
  void Build(const ControllerOptions& options, bool movable = true) {
    cluster_ = std::make_unique<Cluster>(
        fabric::LeafSpineOptions{.spines = 2, .leaves = 4, .hosts_per_leaf = 1}, options);
    cluster_->hash = [this](int from, int, std::uint16_t port) {
      return from == 2 && only_spine_1_ ? 1 : port % 2;
    };
    cluster_->ConnectAll();
    Open(2, {.id = 1, .to = 0});
    Open(2, {.id = 2, .to = 3, .movable = movable});
    cluster_->End(2, 1);
    Open(0, {.id = 1, .to = 1});
    ASSERT_EQ(cluster_->AppliedSpine(2, 2, 3), 1);
    ASSERT_EQ(cluster_->AppliedSpine(0, 1, 1), 0);
  }
  void Open(int from, const Cluster::NewFlow& flow) {
    cluster_->Open(from, {flow});
    cluster_->Settle();
  }
  Load MaxLoad() { return cluster_->state().flow_paths.live().MaxLoad(); }

  bool only_spine_1_ = false;
  std::unique_ptr<Cluster> cluster_;
};

TEST_F(Corner, AStartMovesALiveFlowWhereThatKeepsLinksEven) {
  Build({});
  const std::size_t pushes = cluster_->host(0).pushes.size() + cluster_->host(2).pushes.size();
  Open(0, {.id = 2, .to = 3});
  EXPECT_EQ(MaxLoad(), (Load{1, 1}));
  EXPECT_EQ(cluster_->CounterValue(kMoved), 1);
  EXPECT_EQ(cluster_->host(0).pushes.size() + cluster_->host(2).pushes.size(), pushes + 2);
  const int spine_of_new = cluster_->AppliedSpine(0, 2, 3);
  EXPECT_NE(cluster_->AppliedSpine(0, 1, 1), spine_of_new);
  EXPECT_NE(cluster_->AppliedSpine(2, 2, 3), spine_of_new);
}

TEST_F(Corner, AStartMovesTheFlowWithFewerBytesInFlight) {
  const auto in_flight = [&](int host, std::uint64_t flow, std::uint64_t bytes) {
    wire::FlowReport report;
    report.progress.push_back(
        {.id = wire::LocalFlowId(flow), .remaining_bytes = 1 << 30, .outstanding_bytes = bytes});
    cluster_->Report(host, std::move(report));
    cluster_->Settle();
  };
  for (const bool first_has_fewer : {true, false}) {
    Build({.moved_bytes_per_start = 100});
    in_flight(0, 1, first_has_fewer ? 10 : 20);
    in_flight(2, 2, first_has_fewer ? 20 : 10);
    Open(0, {.id = 2, .to = 3});
    EXPECT_EQ(MaxLoad(), (Load{1, 1}));
    EXPECT_EQ(cluster_->AppliedSpine(0, 1, 1), first_has_fewer ? 1 : 0);
    EXPECT_EQ(cluster_->AppliedSpine(2, 2, 3), first_has_fewer ? 1 : 0);
  }
  Build({.moved_bytes_per_start = 100});
  in_flight(0, 1, 101);
  in_flight(2, 2, 101);
  Open(0, {.id = 2, .to = 3});
  EXPECT_EQ(MaxLoad(), (Load{2, 1}));
  EXPECT_EQ(cluster_->CounterValue(kMoved), 0);
}

TEST_F(Corner, TheNextStartRepairsWhatEndsLeftUnevenElsewhere) {
  for (const std::size_t moves : {0U, 1U}) {
    Build({.moves_per_start = moves});
    for (const std::uint64_t id : {2U, 3U, 4U}) Open(0, {.id = id, .to = 1});
    for (const std::uint64_t id : {2U, 3U, 4U}) {
      if (cluster_->AppliedSpine(0, id, 1) == 1) cluster_->End(0, id);
    }
    cluster_->Settle();
    EXPECT_EQ(MaxLoad(), (Load{2, 1})) << "two of host 0 on one spine";
    Open(2, {.id = 9, .to = 3});
    EXPECT_EQ(MaxLoad(), (Load{moves == 0 ? 2 : 1, 1}));
    EXPECT_EQ(cluster_->CounterValue(kMoved), static_cast<std::int64_t>(moves));
  }
}

TEST_F(Corner, NoLiveFlowMovesWhereTheOperatorAllowsNone) {
  for (const auto& options : {ControllerOptions{.moves_per_start = 0},
                              ControllerOptions{.algorithm = Algorithm::kGreedy}}) {
    Build(options);
    Open(0, {.id = 2, .to = 3});
    EXPECT_EQ(MaxLoad(), (Load{2, 1}));
    EXPECT_EQ(cluster_->CounterValue(kMoved), 0);
    EXPECT_EQ(cluster_->AppliedSpine(2, 2, 3), 1);
    EXPECT_EQ(cluster_->AppliedSpine(0, 1, 1), 0);
  }
}

TEST_F(Corner, AFlowThatCannotMoveStaysForStartsAndForTheOperator) {
  Build({}, /*movable=*/false);
  Open(0, {.id = 2, .to = 3});
  EXPECT_EQ(MaxLoad(), (Load{1, 1}));
  EXPECT_EQ(cluster_->AppliedSpine(2, 2, 3), 1);
  cluster_->Recompute();
  cluster_->Settle();
  EXPECT_EQ(cluster_->AppliedSpine(2, 2, 3), 1);
}

TEST_F(Corner, AMovedFlowKeepsItsPortUntilOneOfItsNewPathIsKnown) {
  only_spine_1_ = true;  // to begin with, no port of host 2 takes the other
  cluster_ = std::make_unique<Cluster>(
      fabric::LeafSpineOptions{.spines = 2, .leaves = 4, .hosts_per_leaf = 1});
  cluster_->hash = [this](int from, int, std::uint16_t port) {
    return from == 2 && only_spine_1_ ? 1 : port % 2;
  };
  cluster_->ConnectAll();
  Open(3, {.id = 1, .to = 0});  // host 0's link from spine 0
  Open(2, {.id = 2, .to = 0});
  ASSERT_EQ(cluster_->AppliedSpine(2, 2, 0), 1);
  const std::uint16_t port = cluster_->host(2).ports.at(2);
  cluster_->host(2).answers_probes = false;
  ASSERT_TRUE(cluster_->ChangeLink("leaf0--spine1", IntentAction::kDrain).has_value());
  cluster_->Settle();
  EXPECT_EQ(cluster_->FlowOf(2, 2).status, FlowStatus::kLearning);
  EXPECT_EQ(cluster_->host(2).ports.at(2), port);
  only_spine_1_ = false;
  cluster_->host(2).answers_probes = true;
  cluster_->Advance(10s);
  EXPECT_EQ(cluster_->FlowOf(2, 2).status, FlowStatus::kRouted);
  EXPECT_EQ(cluster_->AppliedSpine(2, 2, 0), 0);
}

TEST_F(Corner, RecomputeSaysHowFarFromTheBoundItIsAndMovesNothingInVain) {
  Build({.moves_per_start = 0});
  Open(0, {.id = 2, .to = 3});
  const ActionOutcome dry = cluster_->Recompute({.dry_run = true}).value();
  EXPECT_GE(dry.moves.size(), 1U);
  EXPECT_EQ(dry.before.max_load, (Load{2, 1}));
  EXPECT_EQ(dry.after.max_load, (Load{1, 1}));
  EXPECT_EQ(MaxLoad(), (Load{2, 1}));
  cluster_->controller().RefreshMetrics();
  EXPECT_THAT(cluster_->MetricsText(), HasSubstr("espalier_controller_max_link_load 2"));
  EXPECT_THAT(cluster_->MetricsText(), HasSubstr("espalier_controller_max_link_load_bound 1"));

  const ActionOutcome outcome = cluster_->Recompute().value();
  cluster_->Settle();
  EXPECT_EQ(outcome.moves.size(), dry.moves.size());
  EXPECT_TRUE(outcome.after.IsOptimal());
  EXPECT_EQ(MaxLoad(), (Load{1, 1}));
  EXPECT_THAT(cluster_->Recompute()->moves, SizeIs(0));
  EXPECT_THAT(cluster_->state().history.Since(0, 1'000).back().text,
              HasSubstr("max_load=1 bound=1"));
}

// Two flows could make room: of assignments that are as good, the one that moves fewer bytes.
TEST_F(Corner, RecomputeMovesTheFewestBytesInFlightAndNoMoreThanItMay) {
  const auto in_flight = [&](int host, std::uint64_t flow, std::uint64_t bytes) {
    wire::FlowReport report;
    report.progress.push_back(
        {.id = wire::LocalFlowId(flow), .remaining_bytes = 1 << 30, .outstanding_bytes = bytes});
    cluster_->Report(host, std::move(report));
    cluster_->Settle();
  };
  for (const bool first_has_fewer : {true, false}) {
    Build({.moves_per_start = 0});
    Open(0, {.id = 2, .to = 3});
    ASSERT_EQ(MaxLoad(), (Load{2, 1}));
    in_flight(0, 1, first_has_fewer ? 1'000 : 9'000);
    in_flight(2, 2, first_has_fewer ? 9'000 : 1'000);
    in_flight(0, 2, 5'000);
    const ActionOutcome none = cluster_->Recompute({.max_moved_bytes = 999}).value();
    EXPECT_THAT(none.moves, SizeIs(0));
    EXPECT_EQ(none.after.max_load, (Load{2, 1}));
    const ActionOutcome dry = cluster_->Recompute({.dry_run = true}).value();
    const ActionOutcome done = cluster_->Recompute({.max_moved_bytes = 6'000}).value();
    EXPECT_EQ(done.after.max_load, (Load{1, 1}));
    for (const ActionOutcome& outcome : {dry, done}) {
      std::int64_t bytes = 0;
      for (const FlowMove& move : outcome.moves) bytes += move.bytes_in_flight;
      EXPECT_GT(bytes, 0);
      EXPECT_LE(bytes, 6'000);
    }
    EXPECT_THAT(cluster_->Recompute()->moves, SizeIs(0));
  }
}

TEST_F(Corner, FlowsWithoutAPathAreToldAndOthersPlaced) {
  Build({});
  for (const char* link : {"leaf1--spine0", "leaf1--spine1"}) {
    ASSERT_TRUE(cluster_->ChangeLink(link, IntentAction::kFail).has_value());
  }
  Open(0, {.id = 2, .to = 3});
  Open(3, {.id = 3, .to = 1});
  EXPECT_EQ(cluster_->FlowOf(0, 1).status, FlowStatus::kUnroutable);
  EXPECT_EQ(cluster_->FlowOf(3, 3).status, FlowStatus::kUnroutable);
  EXPECT_EQ(cluster_->FlowOf(0, 2).status, FlowStatus::kRouted);
  const ActionOutcome outcome = cluster_->Recompute().value();
  EXPECT_EQ(outcome.after.max_load, (Load{1, 1}));
  EXPECT_TRUE(outcome.after.IsOptimal());
  cluster_->controller().RefreshMetrics();
  EXPECT_THAT(cluster_->MetricsText(), HasSubstr("espalier_controller_flows_unroutable 2"));
}

// Three flows leave a leaf with two spines.
class Split : public testing::Test {
 protected:
  void Start(std::uint8_t paths) {
    cluster_.ConnectAll();
    for (int i = 0; i < 3; ++i) cluster_.Open(i, {{.id = 1, .to = 3 + i, .max_paths = paths}});
    cluster_.Settle();
  }
  std::vector<int> Spines(int host) const { return cluster_.AppliedSpines(host, 1, 3 + host); }
  void Restart(bool with_all_ports);

  Cluster cluster_{{.spines = 2, .leaves = 2, .hosts_per_leaf = 3}};
};

TEST_F(Split, OverOnePathALinkCarriesTwoOfThree) {
  Start(1);
  EXPECT_EQ(cluster_.state().flow_paths.live().MaxLoad(), (Load{2, 1}));
}

TEST_F(Split, OverTwoPathsEachLinkCarriesOneAndAHalf) {
  Start(2);
  EXPECT_EQ(cluster_.state().flow_paths.live().MaxLoad(), (Load{3, 2}));
  for (int host = 0; host < 3; ++host) {
    EXPECT_THAT(Spines(host), UnorderedElementsAre(0, 1));
    const wire::PathSet& set = cluster_.host(host).sets.at(1);
    EXPECT_EQ(set.paths[0].weight, set.paths[1].weight);
    EXPECT_NE(set.paths[0].source_port, set.paths[1].source_port);
  }
  EXPECT_TRUE(Summarize(cluster_.state()).IsOptimal());
  EXPECT_THAT(cluster_.Recompute()->moves, SizeIs(0));
}

TEST(Rates, AreThoseThatFlowsSettleAtAndFollowThem) {
  Cluster cluster({.spines = 2, .leaves = 2, .hosts_per_leaf = 3}, {.limit_rates = true});
  cluster.ConnectAll();
  for (int i = 0; i < 3; ++i) cluster.Open(i, {{.id = 1, .to = 3 + i, .max_paths = 2}});
  cluster.Advance(1s);
  const auto gbps = [&](int host) {
    return static_cast<double>(cluster.host(host).sets.at(1).max_rate_bps) * 1e-9;
  };
  // Two links of 100 Gbit/s for three flows; then each its NIC's rate.
  for (int i = 0; i < 3; ++i) EXPECT_NEAR(gbps(i), 200.0 / 3, 0.001);
  const std::size_t pushes = cluster.host(1).pushes.size();
  cluster.Advance(1s);
  EXPECT_EQ(cluster.host(1).pushes.size(), pushes);
  cluster.End(0, 1);
  cluster.Advance(1s);
  for (int i = 1; i < 3; ++i) EXPECT_NEAR(gbps(i), 100, 0.001);
  EXPECT_EQ(cluster.host(1).pushes.size(), pushes + 1);
}

TEST(Rates, AreNotLimitedUnlessTheOperatorSaysSo) {
  Cluster cluster({.spines = 2, .leaves = 2, .hosts_per_leaf = 3});
  cluster.ConnectAll();
  cluster.Open(0, {{.id = 1, .to = 3}});
  cluster.Advance(1s);
  EXPECT_EQ(cluster.host(0).sets.at(1).max_rate_bps, 0U);
}

TEST_F(Split, NeverHasMorePathsThanThereAre) {
  Start(16);
  for (int host = 0; host < 3; ++host) EXPECT_THAT(Spines(host), UnorderedElementsAre(0, 1));
}

TEST_F(Split, SharesThePathsThatAreLeftAndComesBack) {
  Start(2);
  ASSERT_TRUE(cluster_.ChangeLink("leaf0--spine1", IntentAction::kFail).has_value());
  cluster_.Settle();
  for (int host = 0; host < 3; ++host) {
    EXPECT_THAT(Spines(host), ElementsAre(0, 0));
    const wire::PathSet& set = cluster_.host(host).sets.at(1);
    EXPECT_EQ(set.reason, wire::PathReason::kPathDead);
    EXPECT_NE(set.paths[0].source_port, set.paths[1].source_port);
  }
  EXPECT_EQ(cluster_.state().flow_paths.live().MaxLoad(), (Load{3, 1}));
  ASSERT_TRUE(cluster_.ChangeLink("leaf0--spine1", IntentAction::kRestore).has_value());
  cluster_.Settle();
  // Three of the six halves move, which may be of two flows.
  EXPECT_THAT(cluster_.Recompute()->moves, SizeIs(2));
  cluster_.Settle();
  EXPECT_EQ(cluster_.state().flow_paths.live().MaxLoad(), (Load{3, 2}));
}

TEST_F(Split, FollowsAnAgentThatLeftOneOfThePaths) {
  Start(2);
  const wire::PathSet set = cluster_.host(0).sets.at(1);
  std::uint16_t port = 60'000;
  while (cluster_.SpineOf(0, 3, port) != cluster_.SpineOf(0, 3, set.paths[0].source_port)) ++port;
  cluster_.Deliver(cluster_.host(0).peer, cluster_.host(0).instance,
                   wire::PathHealth{.flows = {{.flow = wire::LocalFlowId(1),
                                               .path_id = set.paths[1].path_id,
                                               .source_port = port,
                                               .verdict = wire::PathVerdict::kRedrawn}}});
  cluster_.Settle();
  const Flow& flow = cluster_.FlowOf(0, 1);
  EXPECT_EQ(flow.status, FlowStatus::kRouted);
  EXPECT_EQ(flow.ways[0].port, set.paths[0].source_port);
  EXPECT_EQ(flow.ways[1].port, port);
  EXPECT_EQ(cluster_.state().flow_paths.PathOf(flow.ways[1]),
            cluster_.state().flow_paths.PathOf(flow.ways[0]));
}

// Two leaves with four hosts each and four spines: each flow alone on its path.
class Redrawn : public testing::Test {
 protected:
  Redrawn() {
    cluster_.ConnectAll();
    for (int host = 0; host < 4; ++host) cluster_.Open(host, {{.id = 1, .to = host + 4}});
    cluster_.Settle();
  }
  int SpineOf(int host) const { return cluster_.AppliedSpine(host, 1, host + 4); }
  std::uint16_t PortOf(int host) { return cluster_.FlowOf(host, 1).ways[0].port; }
  // The host's agent leaves its path for one over this spine.
  std::uint16_t Redraw(int host, int spine) {
    std::uint16_t port = 60'000;
    while (cluster_.SpineOf(host, host + 4, port) != spine || port == PortOf(host)) ++port;
    cluster_.host(host).ports[1] = port;
    const wire::PathSet set = cluster_.host(host).sets.at(1);
    cluster_.host(host).sets.at(1).paths[0].source_port = port;
    cluster_.Deliver(cluster_.host(host).peer, cluster_.host(host).instance,
                     wire::PathHealth{.flows = {{.flow = wire::LocalFlowId(1),
                                                 .path_id = set.paths[0].path_id,
                                                 .source_port = port,
                                                 .verdict = wire::PathVerdict::kRedrawn}}});
    cluster_.Settle();
    return port;
  }
  Load MaxLoad() { return cluster_.state().flow_paths.live().MaxLoad(); }

  Cluster cluster_{{.spines = 4, .leaves = 2, .hosts_per_leaf = 4}};
};

TEST_F(Redrawn, OthersMakeRoomForAFlowThatLeftItsPath) {
  ASSERT_EQ(MaxLoad(), (Load{1, 1}));
  const int left = SpineOf(0);
  const int met = SpineOf(1);
  const std::uint16_t port = Redraw(0, met);
  EXPECT_EQ(MaxLoad(), (Load{2, 1}));
  cluster_.Advance(5s);
  EXPECT_EQ(MaxLoad(), (Load{1, 1}));
  EXPECT_EQ(PortOf(0), port);  // it has found a path that works
  EXPECT_EQ(SpineOf(1), left);
  EXPECT_EQ(cluster_.host(1).sets.at(1).reason, wire::PathReason::kRecomputed);
  EXPECT_EQ(cluster_.CounterValue(kMoved), 1);
  const auto events = cluster_.state().history.Since(0, 1'000);
  EXPECT_EQ(std::ranges::count(events, "made_room", &HistoryEvent::kind), 1);
}

TEST_F(Redrawn, OneMakesRoomWhereTwoOfThemMeet) {
  std::set<int> spines = {0, 1, 2, 3};
  spines.erase(SpineOf(2));
  spines.erase(SpineOf(3));
  Redraw(0, *spines.begin());
  Redraw(1, *spines.begin());
  EXPECT_EQ(MaxLoad(), (Load{2, 1}));
  cluster_.Advance(5s);
  EXPECT_EQ(MaxLoad(), (Load{1, 1}));
  EXPECT_EQ(cluster_.CounterValue(kMoved), 1);
}

TEST_F(Redrawn, RoomIsMadeSoonOnlyWhereALinkIsKnownToBeDead) {
  const int left = SpineOf(0);
  Redraw(0, SpineOf(1));
  cluster_.Advance(2s);
  for (int host = 1; host < 4; ++host) EXPECT_NE(SpineOf(host), left);  // it may be dead
  EXPECT_EQ(cluster_.CounterValue(kMoved), 0);
  ASSERT_TRUE(cluster_.ChangeLink("leaf1--spine" + std::to_string(SpineOf(3)), IntentAction::kFail)
                  .has_value());
  cluster_.Advance(1s);
  EXPECT_EQ(MaxLoad(), (Load{2, 1}));  // four flows, three spines
}

TEST_F(Redrawn, NobodyMakesRoomWhereNoneIsNeeded) {
  cluster_.End(3, 1);
  cluster_.Settle();
  std::set<int> others;
  for (int host = 0; host < 3; ++host) others.insert(SpineOf(host));
  int free = 0;
  while (others.contains(free)) ++free;
  Redraw(0, free);
  cluster_.Advance(1s);
  EXPECT_EQ(SpineOf(0), free);
  EXPECT_EQ(cluster_.CounterValue(kMoved), 0);
}

TEST_F(Redrawn, ItDoesNotGetThePortBackThatItLeft) {
  const std::uint16_t left = PortOf(0);
  const int spine = SpineOf(0);
  Redraw(0, SpineOf(1));
  cluster_.Advance(1s);
  for (int other = 0; other < 4; ++other) {
    if (other == spine) continue;
    const std::string link = "leaf0--spine" + std::to_string(other);
    ASSERT_TRUE(cluster_.ChangeLink(link, IntentAction::kDrain).has_value());
    cluster_.Settle();
  }
  EXPECT_EQ(SpineOf(0), spine);
  EXPECT_NE(PortOf(0), left);
}

// What agents tell a controller that is new: as they do, or (an old agent) of the first path only.
void Split::Restart(bool with_all_ports) {
  cluster_.RestartController();
  for (int i = 0; i < 3; ++i) {
    const wire::PathSet set = cluster_.host(i).sets.at(1);
    wire::Hello hello;
    hello.name = cluster_.host(i).name;
    hello.highest_epoch = cluster_.host(i).epoch;
    cluster_.SayHello(i, hello);
    cluster_.Settle();
    Cluster::NewFlow flow{
        .id = 1, .to = 3 + i, .port = set.paths[0].source_port, .steered = true, .max_paths = 2};
    for (const wire::FlowPath& path : set.paths) {
      if (with_all_ports) flow.path_ports.push_back(path.source_port);
    }
    cluster_.Report(i, Cluster::Opening(cluster_, i, {flow}, /*full=*/true));
  }
  cluster_.Advance(3s);
}

TEST_F(Split, KeepsAllPathsOverARestart) {
  Start(2);
  std::vector<wire::PathSet> before;
  for (int i = 0; i < 3; ++i) before.push_back(cluster_.host(i).sets.at(1));
  Restart(/*with_all_ports=*/true);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(cluster_.host(i).sets.at(1).paths, before[static_cast<std::size_t>(i)].paths) << i;
    EXPECT_EQ(cluster_.FlowOf(i, 1).status, FlowStatus::kRouted);
  }
  EXPECT_EQ(cluster_.state().flow_paths.live().MaxLoad(), (Load{3, 2}));
}

TEST_F(Split, KeepsTheFirstPathsOfAgentsThatTellOfNoOther) {
  Start(2);
  std::vector<std::uint16_t> before;
  for (int i = 0; i < 3; ++i) before.push_back(cluster_.host(i).ports.at(1));
  Restart(/*with_all_ports=*/false);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(cluster_.host(i).ports.at(1), before[static_cast<std::size_t>(i)]) << i;
    EXPECT_THAT(Spines(i), UnorderedElementsAre(0, 1));
  }
}

// The agent has left one path by itself: the other is kept, and the flow gets a second again.
TEST_F(Split, KeepsThePathsThatAreAsItWasTold) {
  Start(2);
  const wire::PathSet set = cluster_.host(0).sets.at(1);
  cluster_.RestartController();
  wire::Hello hello;
  hello.name = "h0";
  hello.highest_epoch = cluster_.host(0).epoch;
  cluster_.SayHello(0, hello);
  cluster_.Settle();
  cluster_.Report(0, Cluster::Opening(cluster_, 0,
                                      {{.id = 1,
                                        .to = 3,
                                        .port = 60'000,
                                        .max_paths = 2,
                                        .path_ports = {0, set.paths[1].source_port}}},
                                      /*full=*/true));
  cluster_.Advance(3s);
  const Flow& flow = cluster_.FlowOf(0, 1);
  EXPECT_EQ(flow.status, FlowStatus::kRouted);
  EXPECT_EQ(flow.ways[1].port, set.paths[1].source_port);
  EXPECT_THAT(Spines(0), UnorderedElementsAre(0, 1));
}

TEST_F(Split, GivesBackAllPathsAndPortsAtTheEnd) {
  Start(2);
  for (int host = 0; host < 3; ++host) cluster_.End(host, 1);
  cluster_.Settle();
  EXPECT_EQ(cluster_.state().flow_paths.live().MaxLoad(), (Load{0, 1}));
  EXPECT_TRUE(cluster_.state().flow_paths.pairs().empty());
}

}  // namespace
}  // namespace espalier::controller
