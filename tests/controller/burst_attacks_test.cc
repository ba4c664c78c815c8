// Bad input about bursts, to a whole controller: agents that claim edges that cannot be, reports
// that come twice or late or not at all, clocks that jump, jobs whose phases never repeat, and
// connections that die one by one. Work must be bounded, the books even, and no flow worse off than
// if all open connections counted.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "tests/controller/cluster.h"
#include "tests/seeds.h"

namespace espalier::controller {
namespace {

using namespace std::chrono_literals;

constexpr const char* kUndecided = "espalier_bursts_without_decision_total";
constexpr const char* kDecided = "espalier_bursts_decided_total";
constexpr const char* kPlans = "espalier_phase_plans_computed_total";
constexpr std::uint64_t kHour = 3'600'000'000;  // us
constexpr int kLiar = 4;

// Two leaves with five hosts each and two spines. The job "train" sends from host i to host i + 5:
// first hosts 0 and 1, then hosts 2 and 3. Host 4 lies.
class BurstAttacks : public testing::Test {
 protected:
  BurstAttacks()
      : cluster_(fabric::LeafSpineOptions{.spines = 2, .leaves = 2, .hosts_per_leaf = 5}, {}) {
    cluster_.ConnectAll();
  }

  static wire::FlowProgress Row(std::uint32_t edges, std::uint64_t id = 1) {
    const bool busy = edges % 2 == 1;
    return {.id = wire::LocalFlowId(id),
            .outstanding_bytes = busy ? 1'000'000U : 0U,
            .state = busy ? wire::FlowState::kActive : wire::FlowState::kIdle,
            .edges = edges,
            .edge_age_us = 100};
  }
  void Open(int host, const std::string& job, std::uint64_t id = 1, std::uint8_t max_paths = 1) {
    wire::FlowReport report = Cluster::Opening(
        cluster_, host, {{.id = id, .to = host + 5, .job = job, .max_paths = max_paths}});
    report.progress = {Row(2, id)};
    cluster_.Report(host, report);
    cluster_.Settle();
  }
  void OpenTraining(std::uint8_t max_paths = 1) {
    for (const int host : {0, 2, 1, 3}) {
      Open(host, "train", 1, max_paths);
      edges_[host] = 2;
    }
  }
  void Tell(int host, std::vector<wire::FlowProgress> rows) {
    wire::FlowReport report;
    report.progress = std::move(rows);
    cluster_.Report(host, report);
  }
  void Toggle(int host) { Tell(host, {Row(++edges_[host])}); }
  // Time passes, in which the liar lies.
  void Pass(Duration duration) {
    for (Duration passed{}; passed < duration; passed += 10ms) {
      if (lie_) lie_();
      cluster_.Settle();
      cluster_.Advance(10ms);
    }
  }
  void RunPhase(const std::vector<int>& hosts, Duration duration) {
    for (const int host : hosts) Toggle(host);
    Pass(duration / 2);
    max_load_ = std::max(max_load_, cluster_.state().flow_paths.assigner().MaxLoad());
    Pass(duration / 2);
    for (const int host : hosts) Toggle(host);
    cluster_.Settle();
  }
  void Train(int periods) {
    max_load_ = {};
    for (int i = 0; i < periods; ++i) {
      RunPhase({0, 1}, 200ms);
      Pass(100ms);
      RunPhase({2, 3}, 200ms);
      Pass(500ms);
    }
    cluster_.state().flow_paths.CheckInvariants();
  }
  std::size_t PushesToTraining() {
    std::size_t pushes = 0;
    for (const int host : {0, 1, 2, 3}) pushes += cluster_.host(host).pushes.size();
    return pushes;
  }
  std::int64_t CountEvents(const std::string& kind) {
    return std::ranges::count(cluster_.state().history.Since(0, 100'000), kind,
                              &HistoryEvent::kind);
  }
  std::uint64_t StartsOf(const std::string& job) {
    for (const auto& view : cluster_.controller().predictor().Jobs()) {
      if (view.job == job) return view.bursts;
    }
    return 0;
  }

  Cluster cluster_;
  std::map<int, std::uint32_t> edges_;  // by host
  std::function<void()> lie_;
  Load max_load_;  // the highest in the middle of a phase
};

// The plan counts on phases that do not meet. A flow that is not where it was planned, and collides
// when it becomes busy, gets another path.
TEST_F(BurstAttacks, AFlowThatCollidesOffItsPlannedPathGetsAnotherPath) {
  OpenTraining();
  Train(12);
  const FlowPaths& paths = cluster_.state().flow_paths;
  const auto path_of = [&](int host) { return paths.PathOf(cluster_.FlowOf(host, 1).subflows[0]); };
  const int other = path_of(2) == path_of(0) ? 3 : 2;
  ASSERT_NE(path_of(other), path_of(0));
  ASSERT_TRUE(cluster_.FlowOf(other, 1).is_parked);
  const Flow& moved = cluster_.FlowOf(other, 1);
  cluster_.state().decisions.Place(*cluster_.state().flows.Find(moved.agent, moved.local), 0,
                                   path_of(0)->value());
  const std::int64_t decided = cluster_.CounterValue(kDecided);
  Toggle(0);
  cluster_.Settle();
  EXPECT_EQ(cluster_.CounterValue(kDecided), decided);  // it is alone
  Toggle(other);
  cluster_.Settle();
  EXPECT_EQ(cluster_.CounterValue(kDecided), decided + 1);
  EXPECT_NE(path_of(other), path_of(0));
  EXPECT_EQ(paths.assigner().MaxLoad(), (Load{1, 1}));
  paths.CheckInvariants();
  Toggle(0);
  Toggle(other);
  Train(12);
  EXPECT_EQ(max_load_, (Load{1, 1}));
}

// Their paths are planned for all phases.
TEST_F(BurstAttacks, NoStartsArePrecomputedForParkedFlows) {
  OpenTraining();
  Train(12);
  const std::int64_t computed = cluster_.CounterValue("espalier_prediction_plans_computed_total");
  Train(5);
  EXPECT_EQ(cluster_.CounterValue("espalier_prediction_plans_computed_total"), computed);
  EXPECT_EQ(max_load_, (Load{1, 1}));
}

TEST_F(BurstAttacks, EdgesBeyondWhatAgentsReportAreNotFollowed) {
  OpenTraining();
  Open(kLiar, "liar");
  Train(12);
  std::uint32_t edges = 2;
  std::mt19937 random(1);
  int reports = 0;
  lie_ = [&] {
    for (int i = 0; i < 10; ++i) {  // 1,000 reports a second, each of many edges
      wire::FlowProgress row = Row(edges += 1'001);
      row.edge_age_us = random() % 2 == 0 ? kHour : random() % 1'000'000;
      Tell(kLiar, {row});
      ++reports;
    }
  };
  Train(3);  // it now counts as busy all the time, so the phases are planned around it
  const std::uint64_t starts = StartsOf("liar");
  const std::size_t pushes = PushesToTraining();
  reports = 0;
  Train(10);
  EXPECT_GE(reports, 9'000);
  EXPECT_LE(StartsOf("liar") - starts, 10U * EdgeBudget::kOfFlow);
  EXPECT_GT(CountEvents("edges_implausible"), 0);
  EXPECT_EQ(max_load_, (Load{2, 1}));     // two flows of the phase and the liar's
  EXPECT_EQ(PushesToTraining(), pushes);  // and no port of others changes
  // It stops lying, and is believed again.
  lie_ = nullptr;
  Tell(kLiar, {Row(edges += 2 - edges % 2)});
  Pass(2s);
  Tell(kLiar, {Row(edges + 2)});
  Pass(100ms);
  const auto slot =
      cluster_.state().flows.Find(cluster_.FlowOf(kLiar, 1).agent, wire::LocalFlowId(1));
  EXPECT_FALSE(cluster_.state().flows.ActivityOf(*slot).IsBusy());
}

// A duty cycle that comes and goes with every report changes the state without an edge.
TEST_F(BurstAttacks, DutyCyclesThatComeAndGoAreNotFollowed) {
  Open(kLiar, "liar");
  std::uint16_t duty = 0;
  lie_ = [&] {
    for (int i = 0; i < 10; ++i) {
      wire::FlowProgress row = Row(2);
      row.duty_permille = duty = duty == 0 ? 500 : 0;
      Tell(kLiar, {row});
    }
  };
  Pass(10s);
  EXPECT_LE(StartsOf("liar"), 10U * EdgeBudget::kOfFlow);
  EXPECT_GT(CountEvents("edges_implausible"), 0);
}

// A program that toggles 100,000 times a second is a duty cycle by the time that its agent reports
// it.
TEST_F(BurstAttacks, AFlowThatTogglesTooOftenIsLoadAndNothingElse) {
  OpenTraining();
  Open(kLiar, "toggles");
  std::uint16_t part = 400;
  lie_ = [&] {
    wire::FlowProgress row = Row(3);
    row.duty_permille = part = part == 400 ? 600 : 400;
    Tell(kLiar, {row});
  };
  Train(12);
  const std::size_t pushes = PushesToTraining();
  Train(5);
  EXPECT_EQ(max_load_, (Load{2, 1}));  // two flows of the phase, and this one
  EXPECT_EQ(PushesToTraining(), pushes);
  EXPECT_LE(StartsOf("toggles"), 1U);
  EXPECT_FALSE(cluster_.FlowOf(kLiar, 1).is_parked);
  EXPECT_EQ(CountEvents("edges_implausible"), 0);
}

// A host invents flows of a job of others, which toggle as often as agents report.
TEST_F(BurstAttacks, FlowsThatToggleInAJobOfOthersMakeNoFlowWorseThanIfConnectionsCounted) {
  OpenTraining();
  Train(12);
  for (std::uint64_t id = 1; id <= 32; ++id) Open(kLiar, "train", id);
  std::mt19937 random(1);
  std::map<std::uint64_t, std::uint32_t> edges;
  lie_ = [&] {
    std::vector<wire::FlowProgress> rows;
    for (std::uint64_t id = 1; id <= 32; ++id) {
      if (random() % 8 == 0) rows.push_back(Row(2 + ++edges[id], id));
    }
    Tell(kLiar, std::move(rows));
  };
  Train(20);
  // 36 connections on two spines.
  EXPECT_LE(max_load_, (Load{18, 1}));
  for (const int host : {0, 1, 2, 3}) {
    EXPECT_EQ(cluster_.FlowOf(host, 1).status, FlowStatus::kRouted) << host;
  }
  // Without them, the phases are learned again.
  lie_ = nullptr;
  for (std::uint64_t id = 1; id <= 32; ++id) cluster_.End(kLiar, id);
  Train(40);
  Train(3);
  EXPECT_EQ(max_load_, (Load{1, 1}));
}

// Two jobs have one name, and periods that have nothing in common.
TEST_F(BurstAttacks, TwoJobsOfOneNameAreNoWorseThanIfConnectionsCounted) {
  for (const int host : {0, 2, 1, 3}) Open(host, "train");
  for (const int host : {0, 1, 2, 3}) edges_[host] = 2;
  TimePoint now{};
  std::map<int, TimePoint> next{
      {0, TimePoint{}}, {1, TimePoint{}}, {2, TimePoint{}}, {3, TimePoint{}}};
  for (int step = 0; step < 6'000; ++step) {
    for (auto& [host, at] : next) {
      if (now < at) continue;
      Toggle(host);
      const bool is_first_job = host < 2;
      const bool busy = edges_[host] % 2 == 1;
      at += is_first_job ? (busy ? 200ms : 570ms) : (busy ? 110ms : 390ms);
    }
    cluster_.Settle();
    cluster_.Advance(10ms);
    now += 10ms;
    ASSERT_LE(cluster_.state().flow_paths.assigner().MaxLoad(), (Load{2, 1}));
  }
  cluster_.state().flow_paths.CheckInvariants();
}

// Intervals are random, so a few resemble each other by accident, and a flow may be parked then.
TEST_F(BurstAttacks, AJobWhosePhasesNeverRepeatCountsItsConnections) {
  constexpr int kRounds = 300;
  for (const std::uint64_t seed : SeedsToTry(1, 5)) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    std::uniform_real_distribution<double> exponent(0, 8);
    const std::int64_t plans = cluster_.CounterValue(kPlans);
    const std::int64_t undecided = cluster_.CounterValue(kUndecided);
    for (const int host : {0, 1, 2, 3}) Open(host, "chaos", 10 + seed);
    std::map<int, std::uint32_t> edges;
    int with_parked = 0;
    for (int round = 0; round < kRounds; ++round) {
      for (const int host : {0, 1, 2, 3}) {
        if (random() % 3 == 0) Tell(host, {Row(2 + ++edges[host], 10 + seed)});
      }
      cluster_.Settle();
      // From 20 ms to 5 s.
      cluster_.Advance(Duration(static_cast<std::int64_t>(2e7 * std::exp2(exponent(random)))));
      ASSERT_LE(cluster_.state().flow_paths.assigner().MaxLoad(), (Load{2, 1})) << round;
      with_parked += std::ranges::any_of(std::vector{0, 1, 2, 3}, [&](int host) {
        return cluster_.FlowOf(host, 10 + seed).is_parked;
      });
    }
    EXPECT_LE(with_parked, kRounds / 10);
    EXPECT_LE(cluster_.CounterValue(kPlans) - plans, kRounds / 10);
    EXPECT_LE(cluster_.CounterValue(kUndecided) - undecided, kRounds / 10);
    for (const int host : {0, 1, 2, 3}) cluster_.End(host, 10 + seed);
    cluster_.Settle();
  }
  cluster_.state().flow_paths.CheckInvariants();
}

// Rows that are old, come twice or are left out, with ages of a clock that jumps, and reports that
// are lost. What is told last is what counts.
TEST_F(BurstAttacks, ReportsOutOfOrderRepeatedOrLostLeaveTheTruth) {
  OpenTraining();
  Train(12);
  for (const std::uint64_t seed : SeedsToTry(1, 5)) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    for (int round = 0; round < 300; ++round) {
      const int host = static_cast<int>(random() % 4);
      std::uint32_t& edges = edges_[host];
      edges += static_cast<std::uint32_t>(random() % 3);
      wire::FlowProgress row = Row(edges);
      row.edge_age_us = random() % 4 == 0 ? random() % kHour : random() % 1'000;
      const std::uint64_t kind = random() % 8;
      if (kind == 0) {
        row = Row(edges - std::min(edges - 1, static_cast<std::uint32_t>(random() % 5)));
      } else if (kind == 1) {
        Tell(host, {row, row});
      } else if (kind == 2) {  // an earlier report is missing
        cluster_.Report(host, {.sequence = 1'000'000'000});
        cluster_.Settle();
        cluster_.Connect(host);
        wire::FlowReport all =
            Cluster::Opening(cluster_, host, {{.id = 1, .to = host + 5, .job = "train"}}, true);
        all.progress = {row};
        cluster_.Report(host, all);
      }
      if (kind != 3) Tell(host, {row});
      cluster_.Settle();
      cluster_.Advance(std::chrono::milliseconds(random() % 100));
    }
    cluster_.Advance(2s);
    for (const int host : {0, 1, 2, 3}) Toggle(host);
    cluster_.Settle();
    cluster_.Advance(2s);
    for (const int host : {0, 1, 2, 3}) {
      const auto slot =
          cluster_.state().flows.Find(cluster_.FlowOf(host, 1).agent, wire::LocalFlowId(1));
      const bool is_busy = cluster_.state().flows.ActivityOf(*slot).IsBusy();
      EXPECT_EQ(is_busy, edges_[host] % 2 == 1) << host;
      EXPECT_FALSE(cluster_.FlowOf(host, 1).is_parked && is_busy) << host;
      if (is_busy) Toggle(host);
    }
    cluster_.state().flow_paths.CheckInvariants();
  }
  Train(40);
  Train(3);
  EXPECT_EQ(max_load_, (Load{1, 1}));
}

// Each flow is a group of two queue pairs. Its agent tells the group that remains as it was, until
// the last pair dies.
TEST_F(BurstAttacks, GroupsThatDieInAnyPhaseLeaveTheOthersAlone) {
  OpenTraining(2);
  Train(12);
  for (const int host : {0, 1, 2, 3}) {
    EXPECT_EQ(cluster_.FlowOf(host, 1).subflows.size(), 2U);
    EXPECT_TRUE(cluster_.FlowOf(host, 1).is_parked);
  }
  cluster_.End(0, 1);  // while it is parked
  cluster_.Settle();
  cluster_.state().flow_paths.CheckInvariants();
  Toggle(1);
  cluster_.Settle();
  cluster_.End(1, 1);  // while it is busy
  cluster_.Settle();
  cluster_.state().flow_paths.CheckInvariants();
  max_load_ = {};
  for (int i = 0; i < 3; ++i) {
    RunPhase({2, 3}, 200ms);
    Pass(800ms);
  }
  EXPECT_EQ(max_load_, (Load{1, 1}));
  for (const int host : {2, 3}) cluster_.End(host, 1);
  cluster_.Settle();
  Pass(1s);
  cluster_.state().flow_paths.CheckInvariants();
  EXPECT_EQ(cluster_.state().flows.size(), 0U);
  EXPECT_EQ(cluster_.state().flow_paths.fingerprint(), 0U);
}

}  // namespace
}  // namespace espalier::controller
