// Flows with several paths are divided again when links have failed or come back.
#include "controller/placement/balance/split_balancer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/controller/cluster.h"

namespace espalier::controller {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr int kLeaves = 3;
constexpr int kSpines = 4;
constexpr int kHosts = 4;  // of a leaf
constexpr const char* kDivisions = "espalier_controller_divisions_total";

// Four flows of each leaf to the next one, over four spines.
class SplitBalancerTest : public ::testing::Test {
 protected:
  void Start(ControllerOptions options = {}, std::uint8_t max_paths = 4, bool keeps = true) {
    cluster_ = std::make_unique<Cluster>(
        fabric::LeafSpineOptions{.spines = kSpines, .leaves = kLeaves, .hosts_per_leaf = kHosts},
        std::move(options));
    cluster_->ConnectAll();
    for (int host = 0; host < kLeaves * kHosts; ++host) Open(host, max_paths, keeps);
    Rest(seconds(3));
  }
  // One link of the first leaf, and so one path of each of its flows, is so many times slower than
  // the others.
  void StartWithASlowerLink(int times, ControllerOptions options = {}, bool keeps = true) {
    slower_ = times;
    fabric::TopologySpec spec =
        *fabric::BuildLeafSpine({.spines = kSpines, .leaves = kLeaves, .hosts_per_leaf = kHosts});
    for (fabric::Link& link : spec.links) {
      const bool is_it =
          spec.nodes[link.a.Index()].id == "leaf0" && spec.nodes[link.b.Index()].id == "spine0";
      if (is_it) link.rate.value /= times;
    }
    cluster_ = std::make_unique<Cluster>(std::move(spec), std::move(options));
    cluster_->ConnectAll();
    for (int host = 0; host < kLeaves * kHosts; ++host) Open(host, 8, keeps);
    Rest(milliseconds(600));
  }
  void Open(int host, std::uint8_t max_paths, bool keeps) {
    cluster_->Open(host,
                   {{.id = 1, .to = PeerOf(host), .max_paths = max_paths, .keeps_weights = keeps}});
  }
  static int PeerOf(int host) { return (host + kHosts) % (kLeaves * kHosts); }
  void Rest(Duration time) {
    cluster_->Settle();
    cluster_->Advance(time);
    cluster_->state().flow_paths.CheckInvariants();
  }
  void Change(IntentAction action, const std::string& spine = "spine0") {
    ASSERT_TRUE(cluster_->ChangeNode(spine, action));
    cluster_->Settle();
  }
  // The most that hosts put on an uplink of a leaf, relative to its rate, by the ports and weights
  // that they have applied.
  double MostApplied() {
    std::map<std::pair<int, int>, double> loads;
    for (int host = 0; host < kLeaves * kHosts; ++host) {
      const auto& paths = cluster_->host(host).sets.at(1).paths;
      double sum = 0;
      for (const wire::FlowPath& path : paths) sum += path.weight;
      for (const wire::FlowPath& path : paths) {
        const int spine = cluster_->SpineOf(host, PeerOf(host), path.source_port);
        loads[{host / kHosts, spine}] += path.weight / sum;
      }
    }
    double most = 0;
    loads[{0, 0}] *= slower_;
    for (const auto& [link, load] : loads) most = std::max(most, load);
    return most;
  }
  // Whether all paths of each flow, without standbys, have the same weight.
  bool AreEqual() {
    for (int host = 0; host < kLeaves * kHosts; ++host) {
      std::set<std::uint32_t> weights;
      for (const wire::FlowPath& path : cluster_->host(host).sets.at(1).paths) {
        if (!path.IsStandby()) weights.insert(path.weight);
      }
      if (weights.size() != 1) return false;
    }
    return true;
  }
  std::vector<std::vector<std::uint16_t>> Ports() {
    std::vector<std::vector<std::uint16_t>> ports;
    for (int host = 0; host < kLeaves * kHosts; ++host) {
      ports.emplace_back();
      for (const wire::FlowPath& path : cluster_->host(host).sets.at(1).paths) {
        if (!path.IsStandby()) ports.back().push_back(path.source_port);
      }
    }
    return ports;
  }
  // Host leaves its path over one spine by itself for another path over another one.
  void MoveByHost(int host, int from, int to) {
    wire::PathSet& set = cluster_->host(host).sets.at(1);
    const auto left = std::ranges::find_if(set.paths, [&](const wire::FlowPath& path) {
      return !path.IsStandby() && cluster_->SpineOf(host, PeerOf(host), path.source_port) == from;
    });
    ASSERT_NE(left, set.paths.end());
    const auto is_free = [&](std::uint16_t port) {
      return cluster_->SpineOf(host, PeerOf(host), port) == to &&
             std::ranges::find(set.paths, port, &wire::FlowPath::source_port) == set.paths.end();
    };
    while (!is_free(next_port_)) ++next_port_;
    left->source_port = next_port_++;
    cluster_->Deliver(
        cluster_->host(host).peer, cluster_->host(host).instance,
        wire::PathHealth{.flows = {{.flow = wire::LocalFlowId(1),
                                    .path_id = left->path_id,
                                    .source_port = left->source_port,
                                    .verdict = wire::PathVerdict::kLocallyRerouted}}});
    cluster_->Settle();
  }
  // The part of a host's flow that goes over a spine.
  double PartOver(int host, int spine) {
    double sum = 0;
    double part = 0;
    for (const wire::FlowPath& path : cluster_->host(host).sets.at(1).paths) {
      sum += path.weight;
      if (cluster_->SpineOf(host, PeerOf(host), path.source_port) == spine) part += path.weight;
    }
    return part / sum;
  }
  void ReportBackground(const std::string& leaf, const std::string& spine, double bps) {
    const fabric::Topology& topology = cluster_->state().topology;
    LinkLoadReport report{.source = "feed",
                          .loads = {},
                          .only_background = true,
                          .max_age = std::chrono::minutes(10)};
    for (const fabric::DirectedLink link : topology.Outgoing(*topology.FindNode(leaf))) {
      if (topology.To(link) == *topology.FindNode(spine)) report.loads.push_back({link, bps});
    }
    ASSERT_TRUE(cluster_->controller().links().background.HandleReport(
        report, cluster_->controller().Now()));
  }
  std::int64_t Divisions() { return cluster_->CounterValue(kDivisions); }
  std::size_t CountEvents(const std::string& kind) {
    const auto events = cluster_->state().history.Since(0, 100'000);
    return static_cast<std::size_t>(std::ranges::count(events, kind, &HistoryEvent::kind));
  }

  std::unique_ptr<Cluster> cluster_;
  std::uint16_t next_port_ = 60'000;
  int slower_ = 1;  // the link between the first leaf and the first spine
};

TEST_F(SplitBalancerTest, LowersTheLoadAfterDamageOnThePathsThatFlowsHave) {
  Start();
  EXPECT_NEAR(MostApplied(), 1, 1e-9);
  Change(IntentAction::kFail);
  const double equal = MostApplied();
  EXPECT_GE(equal, 1.5 - 1e-9);
  const auto ports = Ports();
  Rest(milliseconds(200));
  EXPECT_EQ(Divisions(), 1);
  EXPECT_LT(MostApplied(), 1.02 * 4 / 3);
  EXPECT_EQ(Ports(), ports) << "no path has changed";
  EXPECT_EQ(CountEvents("flows_divided"), 1U);
  EXPECT_GT(cluster_->CounterValue("espalier_controller_flows_divided_total"), 0);
}

// The first division does not wait for what fails a moment later, and does not keep the next one
// waiting either.
TEST_F(SplitBalancerTest, FollowsFurtherDamageWhenTheFabricHasSettled) {
  Start();
  Change(IntentAction::kFail);
  Rest(milliseconds(200));
  ASSERT_EQ(Divisions(), 1);
  Change(IntentAction::kFail, "spine1");
  Rest(milliseconds(300));
  Change(IntentAction::kRestore, "spine1");
  Rest(milliseconds(300));
  Change(IntentAction::kFail, "spine2");
  Rest(milliseconds(700));
  EXPECT_EQ(Divisions(), 1);
  Rest(milliseconds(600));
  EXPECT_EQ(Divisions(), 2);
  EXPECT_LT(MostApplied(), 1.02 * 2);
}

TEST_F(SplitBalancerTest, MakesPartsEqualAgainWhenTheDamageIsHealed) {
  Start();
  Change(IntentAction::kFail);
  Rest(seconds(10));
  ASSERT_EQ(Divisions(), 1);
  EXPECT_FALSE(AreEqual());
  Change(IntentAction::kRestore);
  Rest(seconds(15));
  EXPECT_EQ(Divisions(), 2);
  EXPECT_TRUE(AreEqual());
  EXPECT_NEAR(MostApplied(), 1, 1e-9) << "flows are on the spine that came back, too";
  EXPECT_EQ(CountEvents("flows_equal_again"), 1U);
  Rest(seconds(60));
  EXPECT_EQ(Divisions(), 2);
}

TEST_F(SplitBalancerTest, FollowsArrivalsInADamagedFabricAtIntervals) {
  Start();
  Change(IntentAction::kFail);
  Rest(seconds(10));
  const std::int64_t before = Divisions();
  for (int round = 0; round < 20; ++round) {
    const int host = round % (kLeaves * kHosts);
    cluster_->End(host, 1);
    Open(host, 4, true);
    Rest(milliseconds(500));
  }
  EXPECT_LE(Divisions() - before, 2) << "of 20 arrivals in 10 s";
  Rest(seconds(10));
  EXPECT_LT(MostApplied(), 1.03 * 4 / 3);
}

TEST_F(SplitBalancerTest, WaitsLongerAndLongerForAFabricThatFlaps) {
  Start();
  for (int flap = 0; flap < 40; ++flap) {
    Change(flap % 2 == 0 ? IntentAction::kFail : IntentAction::kRestore);
    Rest(milliseconds(1500));
  }
  EXPECT_LE(Divisions(), 2) << "of 40 changes in a minute";
  const std::int64_t before = Divisions();
  Change(IntentAction::kFail);
  Rest(seconds(30));
  EXPECT_EQ(Divisions(), before) << "the hold has grown";
  Rest(std::chrono::minutes(6));
  EXPECT_GT(Divisions(), before);
  EXPECT_LT(MostApplied(), 1.02 * 4 / 3);
}

TEST_F(SplitBalancerTest, LeavesFlowsAloneThatHaveOnePathOrSendEqualParts) {
  for (const std::uint8_t paths : {std::uint8_t{1}, std::uint8_t{4}}) {
    Start({}, paths, /*keeps=*/paths == 1);
    Change(IntentAction::kFail);
    Rest(seconds(1) - milliseconds(200));
    const auto ports = Ports();
    Rest(seconds(20));
    EXPECT_EQ(Divisions(), 0);
    EXPECT_TRUE(AreEqual());
    EXPECT_EQ(Ports(), ports);
  }
}

TEST_F(SplitBalancerTest, IsUpToTheOptionAndThePolicy) {
  Start(ControllerOptions{.balance_splits = false});
  Change(IntentAction::kFail);
  Rest(seconds(20));
  EXPECT_EQ(Divisions(), 0);
  Start();
  Change(IntentAction::kFail);
  Rest(seconds(10));
  ASSERT_EQ(Divisions(), 1);
  ASSERT_TRUE(cluster_->ChangePolicy("shares", "equal"));
  Rest(seconds(10));
  EXPECT_EQ(Divisions(), 2);
  EXPECT_TRUE(AreEqual());
}

TEST_F(SplitBalancerTest, KeepsToWhatAnOperatorRecomputed) {
  Start({}, 2);
  Change(IntentAction::kFail);
  Rest(milliseconds(300));
  ASSERT_TRUE(cluster_->Recompute());
  const std::int64_t before = Divisions();
  Rest(seconds(20));
  EXPECT_EQ(Divisions(), before) << "it has the least load already";
  EXPECT_NEAR(MostApplied(), 4.0 / 3, 1e-9);
}

TEST_F(SplitBalancerTest, DividesFlowsSoonAfterTheirStartWhereOneLinkIsSlowerThanOthers) {
  StartWithASlowerLink(2);
  EXPECT_EQ(Divisions(), 1);
  EXPECT_LT(MostApplied(), 1.02 * 4 / 3.5);
  Rest(seconds(60));
  EXPECT_FALSE(AreEqual()) << "the link stays as it is";
  for (const bool keeps : {true, false}) {
    StartWithASlowerLink(2, {.balance_splits = !keeps}, keeps);
    EXPECT_TRUE(AreEqual()) << keeps;
    EXPECT_GE(MostApplied(), 1.5 - 1e-9) << keeps;
  }
}

// A quarter of a flow joins what is on another link. The link that was left may be dead, so that no
// other flow puts more on it.
TEST_F(SplitBalancerTest, DividesAFlowThatItsHostMovedAndPutsNothingOnTheLinkThatWasLeft) {
  Start();
  MoveByHost(0, 0, 1);
  EXPECT_NEAR(MostApplied(), 1.25, 1e-9);
  Rest(milliseconds(500));
  EXPECT_EQ(Divisions(), 1);
  EXPECT_LT(MostApplied(), 1.02 * 13 / 12) << "that quarter over three links";
  for (int host = 0; host < kHosts; ++host) {
    EXPECT_NEAR(PartOver(host, 0), host == 0 ? 0 : 0.25, 1e-9);
  }
}

TEST_F(SplitBalancerTest, DividesWhatHostsMovedUntilItIsPlannedAgain) {
  Start();
  for (int host = 0; host < kHosts; ++host) MoveByHost(host, 0, 1 + host % 2);
  EXPECT_NEAR(MostApplied(), 1.5, 1e-9);
  Rest(milliseconds(500));
  EXPECT_EQ(Divisions(), 1);
  EXPECT_LT(MostApplied(), 1.02 * 4 / 3);
  Rest(std::chrono::minutes(3));
  EXPECT_TRUE(AreEqual()) << "no link is known to be dead";
  EXPECT_NEAR(MostApplied(), 1, 1e-9);
}

TEST_F(SplitBalancerTest, LooksAtMovesOfHostsAtGrowingIntervals) {
  Start();
  for (int round = 0; round < 60; ++round) {
    MoveByHost(0, round % 4, (round + 1) % 4);
    Rest(milliseconds(1100));
  }
  EXPECT_LE(Divisions(), 8) << "of 60 moves in a minute";
}

TEST_F(SplitBalancerTest, FollowsBackgroundTraffic) {
  Start();
  ReportBackground("leaf0", "spine0", 50e9);
  Rest(seconds(7));
  EXPECT_EQ(Divisions(), 1);
  // Four flows over three links and a half.
  EXPECT_LT(PartOver(0, 0), 0.2);
  EXPECT_LT(cluster_->state().flow_paths.assigner().MaxLoad().Value(), 1.02 * 4.5 / 4);
  ReportBackground("leaf0", "spine0", 0);
  Rest(seconds(20));
  EXPECT_TRUE(AreEqual());
}

TEST_F(SplitBalancerTest, OutlivesFlowsAndControllersThatEnd) {
  Start();
  Change(IntentAction::kFail);
  Rest(seconds(10));
  ASSERT_EQ(Divisions(), 1);
  for (int host = 0; host < kHosts; ++host) cluster_->End(host, 1);
  Change(IntentAction::kFail, "spine1");
  Rest(seconds(20));
  for (const std::string spine : {"spine2", "spine3"}) Change(IntentAction::kFail, spine);
  Rest(seconds(20));  // no path is left
  for (const std::string spine : {"spine0", "spine1", "spine2", "spine3"}) {
    Change(IntentAction::kRestore, spine);
  }
  cluster_->RestartController();
  for (int host = 0; host < kLeaves * kHosts; ++host) cluster_->Connect(host);
  Rest(seconds(20));
}

}  // namespace
}  // namespace espalier::controller
