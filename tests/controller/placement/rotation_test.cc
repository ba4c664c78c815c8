// Jobs take turns on the links that slow them.
#include "controller/placement/rotation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/controller/cluster.h"

namespace espalier::controller {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr int kLeaves = 4;
constexpr int kSpines = 4;
constexpr int kHosts = 4;  // of a leaf
constexpr int kAll = kLeaves * kHosts;
constexpr seconds kPeriod{2};
constexpr const char* kDecidedBursts = "espalier_bursts_decided_total";
constexpr const char* kExchanges = "espalier_controller_path_exchanges_total";
constexpr const char* kRotated = "espalier_controller_flows_rotated_total";
constexpr const char* kRefused = "espalier_controller_path_exchanges_refused_total";

// Rings over all leaves, one flow from each host to the host of the same number at the next leaf.
// With one uplink of a leaf dead, two of the leaf's four flows share a link.
class RotationTest : public ::testing::Test {
 protected:
  // Host k of each leaf belongs to job k, or all hosts to as many jobs as given.
  void Start(ControllerOptions options = {.rotate_paths_every = kPeriod}, int jobs = kHosts) {
    jobs_ = jobs;
    cluster_ = std::make_unique<Cluster>(
        fabric::LeafSpineOptions{.spines = kSpines, .leaves = kLeaves, .hosts_per_leaf = kHosts},
        std::move(options));
    cluster_->ConnectAll();
    for (int host = 0; host < kAll; ++host) Open(host);
    Rest(seconds(3));
  }
  void Open(int host, bool movable = true) {
    cluster_->Open(host, {{.id = 1, .to = PeerOf(host), .job = JobOf(host), .movable = movable}});
  }
  static int PeerOf(int host) { return (host + kHosts) % kAll; }
  std::string JobOf(int host) const {
    return std::string(1, static_cast<char>('a' + host % jobs_));
  }
  void Rest(Duration time) {
    cluster_->Settle();
    cluster_->Advance(time);
    cluster_->state().flow_paths.CheckInvariants();
  }
  void Change(IntentAction action, const std::string& link = "leaf0--spine0") {
    ASSERT_TRUE(cluster_->ChangeLink(link, action).has_value());
    cluster_->Settle();
  }
  // By direction, leaf and spine: the flows on the link, by the ports that hosts have applied.
  using Loads = std::map<std::array<int, 3>, int>;
  int SpineOf(int host) const { return cluster_->AppliedSpine(host, 1, PeerOf(host)); }
  Loads Applied() const {
    Loads loads;
    for (int host = 0; host < kAll; ++host) {
      ++loads[{0, host / kHosts, SpineOf(host)}];
      ++loads[{1, PeerOf(host) / kHosts, SpineOf(host)}];
    }
    return loads;
  }
  int MaxLoad() const {
    int most = 0;
    for (const auto& [link, load] : Applied()) most = std::max(most, load);
    return most;
  }
  // The flows of the link that is most loaded for one of the job's flows.
  std::map<std::string, int> SlowFactors() const {
    std::map<std::string, int> factors;
    const Loads loads = Applied();
    for (int host = 0; host < kAll; ++host) {
      int& factor = factors[JobOf(host)];
      factor = std::max({factor, loads.at({0, host / kHosts, SpineOf(host)}),
                         loads.at({1, PeerOf(host) / kHosts, SpineOf(host)})});
    }
    return factors;
  }
  // The part of these periods for which each job is slowed, as seen in the middle of each.
  std::map<std::string, double> SlowedParts(int periods) {
    std::map<std::string, double> slowed;
    for (int period = 0; period < periods; ++period) {
      Rest(kPeriod);
      EXPECT_LE(MaxLoad(), 2);
      for (const auto& [job, factor] : SlowFactors()) slowed[job] += factor > 1 ? 1.0 / periods : 0;
    }
    return slowed;
  }
  std::int64_t Count(const char* counter) { return cluster_->CounterValue(counter); }
  std::vector<std::string> EventsOf(const std::string& kind) {
    std::vector<std::string> texts;
    for (const HistoryEvent& event : cluster_->state().history.Since(0, 100'000)) {
      if (event.kind == kind) texts.push_back(event.text);
    }
    return texts;
  }
  std::vector<std::uint16_t> Ports() {
    std::vector<std::uint16_t> ports;
    for (int host = 0; host < kAll; ++host) ports.push_back(cluster_->host(host).ports.at(1));
    return ports;
  }

  int jobs_ = kHosts;
  std::unique_ptr<Cluster> cluster_;
};

TEST_F(RotationTest, EachJobIsSlowedForAPartOfTheTimeOnly) {
  Start();
  Change(IntentAction::kFail);
  const auto slowed = SlowedParts(64);
  ASSERT_EQ(slowed.size(), 4U);
  double sum = 0;
  for (const auto& [job, part] : slowed) {
    EXPECT_GT(part, 0.25) << job;
    EXPECT_LT(part, 0.75) << job;
    sum += part;
  }
  EXPECT_LT(sum, 2.5) << "two places of each direction, mostly taken by the same two jobs";
  EXPECT_GT(Count(kExchanges), 16);
  EXPECT_EQ(static_cast<std::int64_t>(EventsOf("paths_exchanged").size()), Count(kExchanges));
  ASSERT_FALSE(EventsOf("paths_exchanged").empty());
  EXPECT_NE(EventsOf("paths_exchanged").front().find("freed_job="), std::string::npos);
}

TEST_F(RotationTest, MovesAreMarkedAndMadeAtMessageBoundaries) {
  Start();
  Change(IntentAction::kFail);
  Rest(milliseconds(200));
  std::vector<std::uint16_t> before;
  for (int steps = 0; Count(kExchanges) == 0; ++steps) {
    ASSERT_LT(steps, 200);
    before = Ports();
    Rest(milliseconds(50));
  }
  Rest(milliseconds(500));
  const auto after = Ports();
  int moved = 0;
  for (int host = 0; host < kAll; ++host) {
    if (before[static_cast<std::size_t>(host)] == after[static_cast<std::size_t>(host)]) continue;
    ++moved;
    EXPECT_EQ(cluster_->FlowOf(host, 1).origin, DecisionOrigin::kRotation);
    EXPECT_EQ(cluster_->host(host).sets.at(1).reason, wire::PathReason::kRecomputed);
  }
  EXPECT_GE(moved, 2);
  EXPECT_EQ(moved, Count(kRotated));
}

TEST_F(RotationTest, ALoneJobExchangesNothing) {
  Start({.rotate_paths_every = kPeriod}, 1);
  Change(IntentAction::kFail);
  Rest(seconds(1));
  const auto ports = Ports();
  Rest(20 * kPeriod);
  EXPECT_EQ(Ports(), ports);
  EXPECT_EQ(Count(kExchanges), 0);
}

TEST_F(RotationTest, NothingMovesOnAWholeFabric) {
  Start();
  const auto ports = Ports();
  Rest(20 * kPeriod);
  EXPECT_EQ(Ports(), ports);
  EXPECT_EQ(Count(kExchanges), 0);
  EXPECT_EQ(Count(kRefused), 0);
}

TEST_F(RotationTest, EndsWhenTheFabricIsWholeAgain) {
  Start();
  Change(IntentAction::kFail);
  Rest(10 * kPeriod);
  EXPECT_GT(Count(kExchanges), 0);
  Change(IntentAction::kRestore);
  Rest(2 * kPeriod);
  EXPECT_EQ(MaxLoad(), 1);
  const std::int64_t before = Count(kExchanges);
  const auto ports = Ports();
  Rest(10 * kPeriod);
  EXPECT_EQ(Count(kExchanges), before);
  EXPECT_EQ(Ports(), ports);
}

TEST_F(RotationTest, IsUpToTheOptionAndThePolicies) {
  Start({.rotate_paths_every = seconds(0)});
  Change(IntentAction::kFail);
  Rest(20 * kPeriod);
  EXPECT_EQ(Count(kExchanges), 0);
  ASSERT_TRUE(cluster_->ChangePolicy("rotate_paths_seconds", "2"));
  Rest(20 * kPeriod);
  const std::int64_t exchanges = Count(kExchanges);
  EXPECT_GT(exchanges, 0);
  ASSERT_TRUE(cluster_->ChangePolicy("moves_per_start", "0"));
  Rest(20 * kPeriod);
  EXPECT_EQ(Count(kExchanges), exchanges) << "no flow in progress may move";
}

TEST_F(RotationTest, FlowsThatCannotMoveKeepTheirPathsAndTheOthersTakeTurns) {
  Start();
  cluster_->End(0, 1);
  cluster_->Settle();
  Open(0, /*movable=*/false);
  Rest(seconds(3));
  Change(IntentAction::kFail, "leaf0--spine" + std::to_string((SpineOf(0) + 1) % kSpines));
  Rest(seconds(1));
  const std::uint16_t port = cluster_->host(0).ports.at(1);
  SlowedParts(32);
  EXPECT_EQ(cluster_->host(0).ports.at(1), port);
  EXPECT_GT(Count(kExchanges), 0);
}

// A flow that does not send has nothing to lose, and slows nobody.
TEST_F(RotationTest, FlowsThatDoNotSendTakeNoPart) {
  Start();
  Change(IntentAction::kFail);
  Rest(seconds(1));
  for (int host = 0; host < kAll; ++host) {
    wire::FlowReport report;
    report.progress = {{.id = wire::LocalFlowId(1), .state = wire::FlowState::kIdle}};
    cluster_->Report(host, report);
  }
  Rest(2 * kPeriod);
  const std::int64_t before = Count(kExchanges);
  Rest(20 * kPeriod);
  EXPECT_EQ(Count(kExchanges), before);
}

TEST_F(RotationTest, MovesFewFlowsWhileFlowsComeAndGo) {
  Start();
  Change(IntentAction::kFail);
  Rest(seconds(10));
  const std::int64_t before = Count(kRotated);
  for (int round = 0; round < 120; ++round) {
    const int host = round % kAll;
    cluster_->End(host, 1);
    cluster_->Settle();
    Open(host);
    Rest(milliseconds(500));
  }
  const auto periods = std::int64_t{seconds(60) / kPeriod};
  EXPECT_LE(Count(kRotated) - before, periods * kAll);
  EXPECT_LE(MaxLoad(), 2);
}

// Jobs that repeat bursts, with a connection each from the first leaf to the second. Their phases
// are learned, and their flows have planned paths.
class RotationOfPhases : public ::testing::Test {
 protected:
  RotationOfPhases() {
    cluster_.ConnectAll();
    for (int host = 0; host < kHosts; ++host) {
      wire::FlowReport report = Cluster::Opening(
          cluster_, host,
          {{.id = 1, .to = host + kHosts, .job = std::string(1, static_cast<char>('a' + host))}});
      report.progress = {Row(++edges_[static_cast<std::size_t>(host)])};
      cluster_.Report(host, report);
      cluster_.Settle();
    }
    ToggleAll();
  }
  static wire::FlowProgress Row(std::uint32_t edges) {
    const bool busy = edges % 2 == 1;
    return {.id = wire::LocalFlowId(1),
            .outstanding_bytes = busy ? 1'000'000U : 0U,
            .state = busy ? wire::FlowState::kActive : wire::FlowState::kIdle,
            .edges = edges,
            .edge_age_us = 100};
  }
  void ToggleAll() {
    for (int host = 0; host < kHosts; ++host) {
      wire::FlowReport report;
      report.progress = {Row(++edges_[static_cast<std::size_t>(host)])};
      cluster_.Report(host, report);
    }
    cluster_.Settle();
  }
  int SpineOf(int host) const { return cluster_.AppliedSpine(host, 1, host + kHosts); }
  // Counts for each job the bursts in which it shares a link.
  void RunBursts(int count) {
    for (int burst = 0; burst < count; ++burst) {
      ToggleAll();
      cluster_.Advance(milliseconds(150));
      for (int host = 0; host < kHosts; ++host) {
        for (int other = 0; other < kHosts; ++other) {
          if (other == host || SpineOf(other) != SpineOf(host)) continue;
          ++shared_[static_cast<std::size_t>(host)];
          break;
        }
      }
      cluster_.Advance(milliseconds(150));
      ToggleAll();
      cluster_.Advance(milliseconds(200));
    }
    cluster_.state().flow_paths.CheckInvariants();
  }

  Cluster cluster_{
      fabric::LeafSpineOptions{.spines = kSpines, .leaves = 2, .hosts_per_leaf = kHosts},
      {.rotate_paths_every = kPeriod}};
  std::array<std::uint32_t, kHosts> edges_{};
  std::array<int, kHosts> shared_{};
};

TEST_F(RotationOfPhases, JobsWithPlannedPathsTakeTurnsWhileTheyAreIdle) {
  RunBursts(20);
  ASSERT_TRUE(cluster_.ChangeLink("leaf0--spine0", IntentAction::kFail).has_value());
  RunBursts(20);
  for (int host = 0; host < kHosts; ++host) {
    ASSERT_TRUE(cluster_.FlowOf(host, 1).is_parked) << "its phases are learned";
  }
  const std::int64_t decided = cluster_.CounterValue(kDecidedBursts);
  shared_ = {};
  RunBursts(160);
  for (const int shared : shared_) {
    EXPECT_GT(shared, 40);
    EXPECT_LT(shared, 120);
  }
  EXPECT_GT(cluster_.CounterValue(kExchanges), 4);
  EXPECT_EQ(cluster_.CounterValue(kDecidedBursts), decided) << "bursts need no decision";
}

}  // namespace
}  // namespace espalier::controller
