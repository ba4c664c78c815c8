// Flows that send by weights are divided unevenly where that lowers the maximum load.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "controller/placement/loads/load_summary.h"
#include "tests/controller/cluster.h"

namespace espalier::controller {
namespace {

constexpr int kLeaves = 3;
constexpr int kSpines = 4;
constexpr int kHosts = 4;  // of a leaf

// Four flows of each leaf to the next one, over four spines.
class UnevenShares : public ::testing::Test {
 protected:
  void Start(bool keeps_weights, std::uint8_t max_paths = 2) {
    cluster_.ConnectAll();
    for (int host = 0; host < kLeaves * kHosts; ++host) {
      cluster_.Open(
          host,
          {{.id = 1, .to = PeerOf(host), .max_paths = max_paths, .keeps_weights = keeps_weights}});
    }
    Rest();
  }
  static int PeerOf(int host) { return (host + kHosts) % (kLeaves * kHosts); }
  void Rest() {
    cluster_.Settle();
    cluster_.Advance(std::chrono::seconds(2));
  }
  void ChangeSpine(IntentAction action) {
    ASSERT_TRUE(cluster_.ChangeNode("spine0", action));
    Rest();
  }
  Result<ActionOutcome> Recompute() {
    auto outcome = cluster_.Recompute();
    Rest();
    cluster_.state().flow_paths.CheckInvariants();
    return outcome;
  }
  // What hosts put on the uplinks of leaves, by the ports and weights that they have applied.
  std::map<std::pair<int, int>, double> AppliedLoads() {
    std::map<std::pair<int, int>, double> loads;
    for (int host = 0; host < kLeaves * kHosts; ++host) {
      const auto& paths = cluster_.host(host).sets.at(1).paths;
      double sum = 0;
      for (const wire::FlowPath& path : paths) sum += path.weight;
      for (const wire::FlowPath& path : paths) {
        const int spine = cluster_.SpineOf(host, PeerOf(host), path.source_port);
        loads[{host / kHosts, spine}] += path.weight / sum;
      }
    }
    return loads;
  }
  double MostApplied() {
    double most = 0;
    for (const auto& [link, load] : AppliedLoads()) most = std::max(most, load);
    return most;
  }
  // The different weights that hosts have applied.
  std::set<std::uint32_t> Weights() {
    std::set<std::uint32_t> weights;
    for (int host = 0; host < kLeaves * kHosts; ++host) {
      for (const wire::FlowPath& path : cluster_.host(host).sets.at(1).paths) {
        if (!path.IsStandby()) weights.insert(path.weight);
      }
    }
    return weights;
  }

  // Hosts whose flows are divided unequally.
  std::vector<int> DividedHosts() {
    std::vector<int> hosts;
    for (int host = 0; host < kLeaves * kHosts; ++host) {
      const auto& paths = cluster_.host(host).sets.at(1).paths;
      if (paths.front().weight != paths.at(1).weight) hosts.push_back(host);
    }
    return hosts;
  }
  // For so long, these hosts send equal parts, and all others keep the weights.
  void Send(const std::set<int>& equally, std::chrono::milliseconds span) {
    constexpr std::chrono::milliseconds kStep(500);
    for (std::chrono::milliseconds passed{}; passed < span; passed += kStep) {
      cluster_.Advance(kStep);
      for (int host = 0; host < kLeaves * kHosts; ++host) {
        const Cluster::Host& from = cluster_.host(host);
        wire::PathHealth health;
        for (const wire::FlowPath& path : from.sets.at(1).paths) {
          if (path.IsStandby()) continue;
          health.flows.push_back(
              {.flow = wire::LocalFlowId(1),
               .path_id = path.path_id,
               .source_port = path.source_port,
               .achieved_bps = 1'000'000 * (equally.contains(host) ? 1 : path.weight)});
        }
        cluster_.Deliver(from.peer, from.instance, health);
      }
      cluster_.Settle();
    }
  }
  std::vector<std::string> FoundToIgnoreWeights() {
    std::vector<std::string> found;
    for (const HistoryEvent& event : cluster_.state().history.Since(0, 10'000)) {
      if (event.kind == "weights_ignored") found.push_back(event.text);
    }
    return found;
  }

  // Without SplitBalancer, which would divide flows before the operator does.
  Cluster cluster_{{.spines = kSpines, .leaves = kLeaves, .hosts_per_leaf = kHosts},
                   {.balance_splits = false}};
};

TEST_F(UnevenShares, ReachTheFractionThatASpineDownLeavesAndGoBackWithIt) {
  Start(true);
  EXPECT_NEAR(MostApplied(), 1, 1e-9);
  ChangeSpine(IntentAction::kFail);
  EXPECT_GE(MostApplied(), 1.5 - 1e-9);
  EXPECT_FALSE(Summarize(cluster_.state()).IsOptimal());
  const auto dry_run = cluster_.Recompute({.dry_run = true});
  ASSERT_TRUE(dry_run);
  EXPECT_EQ(dry_run->after.max_load, (Load{4, 3}));
  EXPECT_EQ(Weights(), std::set{1U}) << "a dry run changes nothing";
  const auto outcome = Recompute();
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->after.max_load, (Load{4, 3}));
  EXPECT_EQ(cluster_.state().flow_paths.assigner().MaxLoad(), (Load{4, 3}));
  EXPECT_TRUE(Summarize(cluster_.state()).IsOptimal());
  EXPECT_NEAR(MostApplied(), 4.0 / 3, 1e-9);
  EXPECT_EQ(Weights(), (std::set{1U, 2U}));
  const auto again = Recompute();
  ASSERT_TRUE(again);
  EXPECT_TRUE(again->moves.empty());
  ChangeSpine(IntentAction::kRestore);
  ASSERT_TRUE(Recompute());
  EXPECT_NEAR(MostApplied(), 1, 1e-9);
  EXPECT_EQ(Weights(), std::set{1U});
}

TEST_F(UnevenShares, AreNotForFlowsThatSendEqualParts) {
  Start(false);
  ChangeSpine(IntentAction::kFail);
  ASSERT_TRUE(Recompute());
  EXPECT_EQ(cluster_.state().flow_paths.assigner().MaxLoad(), (Load{3, 2}));
  EXPECT_EQ(Weights(), std::set{1U});
  EXPECT_TRUE(Summarize(cluster_.state()).IsOptimal());
}

TEST_F(UnevenShares, LeaveRoomForFlowsThatSendEqualParts) {
  cluster_.ConnectAll();
  for (int host = 0; host < kLeaves * kHosts; ++host) {
    const bool is_rigid = host % kHosts == 0;
    cluster_.Open(host, {{.id = 1,
                          .to = PeerOf(host),
                          .max_paths = static_cast<std::uint8_t>(is_rigid ? 1 : 2),
                          .keeps_weights = !is_rigid}});
  }
  Rest();
  ChangeSpine(IntentAction::kFail);
  ASSERT_TRUE(Recompute());
  EXPECT_EQ(cluster_.state().flow_paths.assigner().MaxLoad(), (Load{4, 3}));
  EXPECT_NEAR(MostApplied(), 4.0 / 3, 1e-9);
  EXPECT_TRUE(Summarize(cluster_.state()).IsOptimal());
}

TEST_F(UnevenShares, AreUpToThePolicy) {
  Start(true, 4);
  ChangeSpine(IntentAction::kFail);
  ASSERT_TRUE(cluster_.ChangePolicy("shares", "equal"));
  ASSERT_TRUE(Recompute());
  EXPECT_EQ(Weights(), std::set{1U});
  EXPECT_GT(MostApplied(), 4.0 / 3 + 0.01);
  ASSERT_TRUE(cluster_.ChangePolicy("shares", "exact"));
  ASSERT_TRUE(Recompute());
  EXPECT_NEAR(MostApplied(), 4.0 / 3, 1e-9);
}

// Its load counts as what it is, and it is never divided again.
TEST_F(UnevenShares, AreNotForFlowsThatOnlySayThatTheyKeepWeights) {
  Start(true);
  ChangeSpine(IntentAction::kFail);
  ASSERT_TRUE(Recompute());
  const std::vector<int> divided = DividedHosts();
  ASSERT_GE(divided.size(), 2U);
  Send({divided[0]}, std::chrono::seconds(20));
  EXPECT_TRUE(FoundToIgnoreWeights().empty()) << "too early";
  Send({divided[0]}, std::chrono::minutes(2));
  EXPECT_EQ(FoundToIgnoreWeights(), std::vector{"flow=" + cluster_.host(divided[0]).name + ":1"});
  EXPECT_EQ(DividedHosts(), std::vector(divided.begin() + 1, divided.end()));
  cluster_.state().flow_paths.CheckInvariants();
  EXPECT_NEAR(MostApplied(), cluster_.state().flow_paths.assigner().MaxLoad().Value(), 1e-9);
  ASSERT_TRUE(Recompute());
  EXPECT_EQ(std::ranges::count(DividedHosts(), divided[0]), 0);
  cluster_.state().flow_paths.CheckInvariants();
  EXPECT_NEAR(MostApplied(), cluster_.state().flow_paths.assigner().MaxLoad().Value(), 1e-9);
}

// What a divided flow does later counts with its shares.
TEST_F(UnevenShares, StayWithTheirSubflowsWhenPathsChange) {
  Start(true);
  ChangeSpine(IntentAction::kFail);
  ASSERT_TRUE(Recompute());
  ASSERT_EQ(Weights(), (std::set{1U, 2U}));
  ASSERT_TRUE(cluster_.ChangeLink("leaf0--spine1", IntentAction::kFail));
  Rest();
  cluster_.state().flow_paths.CheckInvariants();
  EXPECT_NEAR(MostApplied(), cluster_.state().flow_paths.assigner().MaxLoad().Value(), 1e-9);
  cluster_.End(0, 1);
  cluster_.Open(0, {{.id = 1, .to = PeerOf(0), .max_paths = 2, .keeps_weights = true}});
  Rest();
  cluster_.state().flow_paths.CheckInvariants();
  cluster_.RestartController();
  for (int host = 0; host < kLeaves * kHosts; ++host) cluster_.Connect(host);
  Rest();
  cluster_.state().flow_paths.CheckInvariants();
}

}  // namespace
}  // namespace espalier::controller
