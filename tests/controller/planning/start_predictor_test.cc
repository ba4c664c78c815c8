// Precomputed starts: when they hold, and what happens if they do not.
#include "controller/planning/start_predictor.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <string>
#include <vector>

#include "tests/controller/cluster.h"

namespace espalier::controller {
namespace {

using namespace std::chrono_literals;

constexpr const char* kHits = "espalier_prediction_plan_hits_total";
constexpr const char* kFits = "espalier_prediction_plan_stale_hits_total";
constexpr const char* kMisses = "espalier_prediction_plan_misses_total";
constexpr const char* kPlansMade = "espalier_prediction_plans_computed_total";

// Four leaves with four hosts each and four spines; a job with one all-reduce in four rings per
// second.
class StartPredictorTest : public testing::Test {
 protected:
  StartPredictorTest()
      : cluster_(fabric::LeafSpineOptions{.spines = 4, .leaves = 4, .hosts_per_leaf = 4}) {
    cluster_.ConnectAll();
  }

  // Ring r has host r of each leaf.
  void StartRings(const std::string& job, int rings) {
    for (int host = 0; host < cluster_.hosts(); ++host) {
      if (host % 4 >= rings) continue;
      cluster_.Open(host, {{.id = ++next_id_, .to = (host + 4) % 16, .job = job}});
      open_.emplace_back(host, next_id_);
    }
    cluster_.Settle();
  }
  void EndAll() {
    for (const auto& [host, id] : open_) cluster_.End(host, id);
    open_.clear();
    cluster_.Settle();
  }
  void Iterate(int times) {
    for (int i = 0; i < times; ++i) {
      StartRings("train", 4);
      cluster_.Advance(400ms);
      EndAll();
      cluster_.Advance(600ms);
    }
  }
  std::uint64_t FreshFingerprint() {
    State& state = cluster_.state();
    std::uint64_t sum = 0;
    for (const FlowSlot slot : state.flows.All()) {
      const Flow& flow = state.flows.At(slot);
      for (const Subflow& subflow : flow.subflows) {
        if (const auto path = state.flow_paths.PathOf(subflow))
          sum += FingerprintOf(state.view, flow, subflow, path->value());
      }
    }
    return sum;
  }
  Load MaxLoad() { return cluster_.state().flow_paths.assigner().MaxLoad(); }

  Cluster cluster_;
  std::uint64_t next_id_ = 0;
  std::vector<std::pair<int, std::uint64_t>> open_;
};

TEST_F(StartPredictorTest, ARepeatedIterationUsesPrecomputedPaths) {
  Iterate(1);
  EXPECT_EQ(cluster_.CounterValue(kHits), 0);
  Iterate(3);
  EXPECT_EQ(cluster_.CounterValue(kHits), 48);
  EXPECT_EQ(cluster_.CounterValue(kMisses), 0);
  StartRings("train", 4);
  EXPECT_EQ(MaxLoad(), (Load{1, 1}));
  for (const auto& [host, id] : open_) {
    EXPECT_EQ(cluster_.FlowOf(host, id).origin, DecisionOrigin::kPredicted);
    EXPECT_EQ(cluster_.FlowOf(host, id).status, FlowStatus::kRouted);
  }
  EXPECT_EQ(cluster_.state().flow_paths.fingerprint(), FreshFingerprint());
}

// A queue pair is one flow for its whole life. Its next message starts on the port that the agent
// has: nothing is requested, decided or pushed, and the size is known.
TEST_F(StartPredictorTest, TheNextMessageOfAnOpenFlowHasItsPortAlready) {
  StartRings("train", 4);
  std::vector<std::size_t> pushes;
  std::vector<std::uint16_t> ports;
  for (const auto& [host, id] : open_) {
    pushes.push_back(cluster_.host(host).pushes.size());
    ports.push_back(cluster_.host(host).ports.at(id));
  }
  for (const std::uint64_t remaining : {0ULL, 64'000'000ULL, 0ULL, 32'000'000ULL}) {
    for (const auto& [host, id] : open_) {
      wire::FlowReport report;
      report.progress = {
          {.id = wire::LocalFlowId(id),
           .remaining_bytes = remaining,
           .state = remaining == 0 ? wire::FlowState::kIdle : wire::FlowState::kActive}};
      cluster_.Report(host, report);
    }
    cluster_.Settle();
    cluster_.Advance(500ms);
    for (std::size_t i = 0; i < open_.size(); ++i) {
      const auto& [host, id] = open_[i];
      EXPECT_EQ(cluster_.host(host).ports.at(id), ports[i]);
      EXPECT_EQ(cluster_.host(host).pushes.size(), pushes[i]);
      const auto slot =
          cluster_.state().flows.Find(cluster_.FlowOf(host, id).agent, wire::LocalFlowId(id));
      EXPECT_EQ(cluster_.state().flows.ActivityOf(*slot).remaining_bytes, remaining);
    }
  }
  EXPECT_EQ(cluster_.CounterValue(kHits) + cluster_.CounterValue(kMisses), 0);
}

// Each burst consists of other flows, so prediction of the job is disabled. Then they repeat.
TEST_F(StartPredictorTest, RecordsWhenPredictionOfAJobIsDisabledAndEnabled) {
  const auto kinds = [&] {
    std::vector<std::string> found;
    for (const HistoryEvent& event : cluster_.state().history.Since(0, 1'000)) {
      if (event.kind.starts_with("prediction_")) found.push_back(event.kind);
    }
    return found;
  };
  std::mt19937 random(3);
  for (int burst = 0; burst < 60; ++burst) {
    for (int host = 0; host < 16; ++host) {
      const int to = (host + 4 + static_cast<int>(random() % 9)) % 16;
      cluster_.Open(host, {{.id = ++next_id_, .to = to, .job = "train"}});
      open_.emplace_back(host, next_id_);
    }
    cluster_.Settle();
    EndAll();
    cluster_.Advance(1s);
  }
  EXPECT_EQ(kinds(), std::vector<std::string>{"prediction_disabled"});
  Iterate(60);
  EXPECT_EQ(kinds(), (std::vector<std::string>{"prediction_disabled", "prediction_enabled"}));
}

// A declared schedule needs no learning.
TEST_F(StartPredictorTest, ADeclaredScheduleUsesPrecomputedPathsTheFirstTime) {
  const auto nic = [&](int host) {
    return *cluster_.state().topology.FindNode("h" + std::to_string(host));
  };
  StartPredictor::Schedule schedule{.job = "train", .bytes_each = 1'000'000, .period = 1s};
  for (int host = 0; host < 16; ++host)
    schedule.flows.emplace_back(nic(host), nic((host + 4) % 16));
  schedule.flows.emplace_back(nic(0), nic(1));  // under one switch
  const auto taken = cluster_.controller().DeclareStarts(schedule);
  ASSERT_TRUE(taken.has_value());
  EXPECT_EQ(*taken, 16U);
  EXPECT_EQ(*cluster_.controller().DeclareStarts(schedule), 0U);
  cluster_.Advance(100ms);
  StartRings("train", 4);
  EXPECT_EQ(cluster_.CounterValue(kHits), 16);
  EXPECT_EQ(cluster_.CounterValue(kMisses), 0);
  EXPECT_EQ(MaxLoad(), (Load{1, 1}));
  for (const auto& [host, id] : open_) {
    EXPECT_EQ(cluster_.FlowOf(host, id).origin, DecisionOrigin::kPredicted);
  }
  const auto jobs = cluster_.controller().predictor().Jobs();
  ASSERT_EQ(jobs.size(), 1U);
  ASSERT_TRUE(jobs[0].next_start);
  const Duration next = *jobs[0].next_start - cluster_.controller().Now();
  EXPECT_NEAR(std::chrono::duration<double>(next).count(), 1, 0.01);
  cluster_.Advance(400ms);
  EndAll();
  cluster_.Advance(600ms);
  StartRings("train", 4);
  EXPECT_EQ(cluster_.CounterValue(kHits), 32);
}

TEST_F(StartPredictorTest, AnInvalidDeclarationChangesNothing) {
  const fabric::Topology& topology = cluster_.state().topology;
  const fabric::NodeId nic = *topology.FindNode("h0");
  const auto refused = cluster_.controller().DeclareStarts(
      {.job = "train", .flows = {{nic, *topology.FindNode("spine0")}}});
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(*cluster_.controller().DeclareStarts({.job = "train"}), 0U);
  EXPECT_TRUE(cluster_.controller().predictor().Jobs().empty());
  // Flows that never arrive switch prediction off for the job and have no other effect.
  StartPredictor::Schedule wrong{.job = "train"};
  for (int host = 4; host < 16; ++host) {
    wrong.flows.emplace_back(nic, *topology.FindNode("h" + std::to_string(host)));
  }
  ASSERT_EQ(*cluster_.controller().DeclareStarts(wrong), 12U);
  Iterate(4);
  EXPECT_EQ(MaxLoad(), (Load{0, 1}));
  StartRings("train", 4);
  EXPECT_EQ(MaxLoad(), (Load{1, 1}));
}

TEST_F(StartPredictorTest, ShowsPredictedStarts) {
  Iterate(4);
  const auto jobs = cluster_.controller().predictor().Jobs();
  ASSERT_EQ(jobs.size(), 1U);
  EXPECT_EQ(jobs[0].job, "train");
  EXPECT_TRUE(jobs[0].is_on);
  EXPECT_TRUE(jobs[0].is_planned);
  EXPECT_EQ(jobs[0].members, 16U);
  EXPECT_EQ(jobs[0].next_flows, 16U);
  ASSERT_TRUE(jobs[0].period && jobs[0].next_start);
  EXPECT_NEAR(std::chrono::duration<double>(*jobs[0].period).count(), 1, 0.01);
  const Duration off = *jobs[0].next_start - cluster_.controller().Now();
  EXPECT_LT(std::abs(std::chrono::duration<double>(off).count()), 0.05);
}

TEST_F(StartPredictorTest, PartOfASetUsesThePlanAndTheRestMayComeLater) {
  Iterate(3);
  StartRings("train", 2);
  cluster_.Advance(5ms);
  const auto hits = cluster_.CounterValue(kHits);
  EXPECT_EQ(hits, 32 + 8);
  for (int host = 0; host < 16; ++host) {
    if (host % 4 < 2) continue;
    cluster_.Open(host, {{.id = ++next_id_, .to = (host + 4) % 16, .job = "train"}});
    open_.emplace_back(host, next_id_);
  }
  cluster_.Settle();
  EXPECT_EQ(cluster_.CounterValue(kHits), hits + 8);
  EXPECT_EQ(MaxLoad(), (Load{1, 1}));
}

TEST_F(StartPredictorTest, AfterAnotherJobStartsOutdatedPathsAreTakenOnlyWithinEvenShares) {
  Iterate(3);
  const auto hits = cluster_.CounterValue(kHits);
  // All before the controller has time to plan. The other job takes the first spines of leaf 0.
  for (std::uint64_t i = 0; i < 3; ++i) {
    cluster_.Open(0, {{.id = 900 + i, .to = 8, .job = "other"}});
  }
  cluster_.Settle();
  for (int host = 0; host < 2; ++host) {
    const std::uint64_t id = 910 + static_cast<std::uint64_t>(host);
    cluster_.Open(host, {{.id = id, .to = host + 4, .job = "train"}});
  }
  cluster_.Settle();
  EXPECT_EQ(cluster_.CounterValue(kHits), hits);
  EXPECT_EQ(cluster_.CounterValue(kFits) + cluster_.CounterValue(kMisses), 2);
  EXPECT_GE(cluster_.CounterValue(kMisses), 1);
  EXPECT_EQ(MaxLoad(), (Load{2, 1}));  // five flows, four spines
  cluster_.Advance(50ms);
  cluster_.Open(2, {{.id = 902, .to = 6, .job = "train"}});
  cluster_.Settle();
  EXPECT_EQ(cluster_.CounterValue(kHits), hits + 1);
  EXPECT_EQ(cluster_.state().flow_paths.fingerprint(), FreshFingerprint());
}

TEST_F(StartPredictorTest, APlanIsInvalidAfterATopologyChange) {
  Iterate(3);
  ASSERT_TRUE(cluster_.ChangeLink("leaf1--spine2", IntentAction::kFail).has_value());
  const auto hits = cluster_.CounterValue(kHits);
  cluster_.Open(4, {{.id = 900, .to = 8, .job = "train"}});
  cluster_.Settle();
  EXPECT_EQ(cluster_.CounterValue(kHits), hits);  // no time to plan again
  EXPECT_NE(cluster_.AppliedSpine(4, 900, 8), 2);
  cluster_.Advance(100ms);
  StartRings("train", 4);
  EXPECT_GT(cluster_.CounterValue(kHits), hits);
  for (const auto& [host, id] : open_) {
    if (host / 4 != 1) continue;
    EXPECT_NE(cluster_.AppliedSpine(host, id, (host + 4) % 16), 2);
  }
}

TEST_F(StartPredictorTest, NextSetsArePlannedForThePathsThatRemain) {
  // Each set begins as the one before it ends, in the same report.
  std::map<int, std::uint64_t> own;
  for (int round = 0; round < 12; ++round) {
    for (int host = 0; host < 16; ++host) {
      const int to = (host + (round % 2 == 0 ? 4 : 8)) % 16;
      auto report = Cluster::Opening(cluster_, host, {{.id = ++next_id_, .to = to, .job = "moe"}});
      if (own[host] != 0) report.ended = {wire::LocalFlowId(own[host])};
      own[host] = next_id_;
      cluster_.Report(host, report);
    }
    cluster_.Settle();
    EXPECT_EQ(MaxLoad(), (Load{1, 1})) << round;
    for (int part = 1; part <= 10; ++part) {  // they send at a constant rate
      cluster_.Advance(100ms);
      for (const auto& [host, id] : own) {
        wire::FlowReport progress;
        const std::uint64_t left = (std::uint64_t{1} << 30U) / 10 * (10U - unsigned(part)) + 1'000;
        progress.progress.push_back({.id = wire::LocalFlowId(id), .remaining_bytes = left});
        cluster_.Report(host, progress);
      }
    }
    cluster_.Settle();
    cluster_.Advance(5ms);
  }
  EXPECT_GE(cluster_.CounterValue(kHits), 16 * 6);
}

TEST_F(StartPredictorTest, AHostWithWrongReportsHarmsNoOtherJob) {
  Iterate(3);
  for (int i = 0; i < 20; ++i) {
    // Different flows each time, of absurd sizes, of a job of its own.
    wire::FlowReport lies = Cluster::Opening(
        cluster_, 15, {{.id = 5'000 + std::uint64_t(i), .to = (3 * i) % 12, .job = "liar"}});
    lies.progress[0].remaining_bytes = std::numeric_limits<std::int64_t>::max();
    lies.progress[0].achieved_bps = std::numeric_limits<std::int64_t>::max();
    cluster_.Report(15, lies);
    cluster_.Settle();
    cluster_.Advance(10ms);
    const auto hits = cluster_.CounterValue(kHits);
    StartRings("train", 4);
    EXPECT_EQ(cluster_.CounterValue(kHits), hits + 16) << i;
    cluster_.Advance(400ms);
    EndAll();
    cluster_.Advance(590ms);
  }
  const auto jobs = cluster_.controller().predictor().Jobs();
  ASSERT_EQ(jobs.size(), 2U);
  EXPECT_FALSE(jobs[0].is_on);  // "liar": none of its flows was predicted
  EXPECT_TRUE(jobs[1].is_on);
}

TEST_F(StartPredictorTest, FlowsOpenWhenAnAgentConnectsAreNotArrivals) {
  Iterate(2);
  StartRings("train", 4);
  cluster_.RestartController();
  for (const auto& [host, id] : open_) {
    cluster_.Connect(host);
    cluster_.Report(
        host, Cluster::Opening(cluster_, host, {{.id = id, .to = (host + 4) % 16, .job = "train"}},
                               /*full=*/true));
  }
  cluster_.Settle();
  EXPECT_EQ(cluster_.CounterValue(kPlansMade), 0);  // no set was learned
  EndAll();                                         // flows that were never learned end, too
  EXPECT_TRUE(cluster_.controller().predictor().Jobs().size() <= 1);
}

}  // namespace
}  // namespace espalier::controller
