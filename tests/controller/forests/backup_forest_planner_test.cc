// Tests forests that are precomputed for the failure of a link or switch.
#include "controller/forests/backup_forest_planner.h"

#include <gtest/gtest.h>

#include <deque>

#include "tests/controller/cluster.h"

namespace espalier::controller {
namespace {

using namespace std::chrono_literals;

constexpr fabric::LeafSpineOptions kShape{.spines = 4,
                                          .leaves = 4,
                                          .hosts_per_leaf = 2,
                                          .host_rate = BitsPerSecond{800'000'000'000},
                                          .fabric_rate = BitsPerSecond{100'000'000'000}};
constexpr const char* kForests = "espalier_controller_forests_total";
constexpr const char* kMade = "espalier_forest_failure_plans_made_total";
constexpr const char* kHits = "espalier_forest_failure_plan_hits_total";
constexpr const char* kMisses = "espalier_forest_failure_plan_misses_total";

ControllerOptions Options(bool plan_ahead = true) {
  ControllerOptions options;
  options.fabric_hashes_protocol = false;  // what UDP probes learn holds for TCP
  options.verification.interval = {};
  options.plan_ahead = plan_ahead;
  return options;
}

class BackupForestPlannerTest : public testing::Test {
 protected:
  void Build(const ControllerOptions& options = Options()) {
    cluster_ = std::make_unique<Cluster>(kShape, options);
    cluster_->ConnectAll();
  }
  void Start() {
    JobSpec spec{.name = "train", .ranks = {}};
    for (int i = 0; i < 8; ++i) spec.ranks.push_back("h" + std::to_string(i));
    const auto started = cluster_->StartJob(spec);
    ASSERT_TRUE(started.has_value()) << started.error().message;
    cluster_->Settle();
    ASSERT_EQ(Status(), JobStatus::kReady);
  }
  const TreeJob& Job() { return cluster_->controller().jobs().all().at("train"); }
  JobStatus Status() { return cluster_->controller().jobs().StatusOf(Job()); }
  BackupForests::Coverage Coverage() { return cluster_->controller().jobs().ReadyFor(Job()); }
  std::int64_t Count(const char* name) { return cluster_->CounterValue(name); }
  // Runs until an up-to-date backup forest is ready for every failure domain.
  void AwaitForests() {
    const auto is_done = [&] {
      return !cluster_->controller().jobs().ready().Next(cluster_->state().topology.version(),
                                                         cluster_->state().flow_paths.changes());
    };
    for (int i = 0; i < 1'000 && !is_done(); ++i) cluster_->Advance(1s);
    ASSERT_TRUE(is_done());
    ASSERT_GT(Coverage().elements, 0U);
    ASSERT_EQ(Coverage().ready, Coverage().elements);
  }
  // The forest for the present fabric without other flows.
  JobForest Fresh() {
    ForestRequest request{
        .topology = std::make_shared<const fabric::Topology>(cluster_->state().topology),
        .available = {},
        .name = "train",
        .collective = Job().spec.collective,
        .ranks = Job().ranks};
    auto forest = BuildJobForest(request);
    EXPECT_TRUE(forest.has_value());
    return std::move(*forest);
  }
  // Checks that all links of the plan in force are up and that its ports lead to its paths.
  void ExpectSound() {
    EXPECT_EQ(Status(), JobStatus::kReady) << Job().problem;
    const JobPlan& plan = *Job().active;
    for (std::size_t i = 0; i < plan.forest->edges.size(); ++i) {
      const TreeEdge& edge = plan.forest->edges[i];
      if (!edge.crossing) continue;
      const auto paths = cluster_->state().paths.Between(edge.crossing->source_leaf,
                                                         edge.crossing->destination_leaf);
      EXPECT_TRUE(fabric::IsUsable(cluster_->state().topology, paths[edge.crossing->path.Index()]));
      EXPECT_EQ(cluster_->SpineOf(edge.from, edge.to, plan.ports[i]), edge.crossing->path.value());
    }
  }

  std::unique_ptr<Cluster> cluster_;
};

TEST_F(BackupForestPlannerTest, AFailureFindsTheForestThatWouldBeComputed) {
  Build();
  Start();
  for (const char* link : {"leaf1--spine2", "leaf3--spine0"}) {
    AwaitForests();
    const std::int64_t forests = Count(kForests);
    const std::int64_t hits = Count(kHits);
    ASSERT_TRUE(cluster_->ChangeLink(link, IntentAction::kFail).has_value());
    cluster_->Settle();  // no time passes
    EXPECT_EQ(Count(kForests), forests) << "none was made";
    EXPECT_EQ(Count(kHits), hits + 1);
    EXPECT_EQ(Job().active->origin, DecisionOrigin::kFailure);
    EXPECT_TRUE(*Job().active->forest == Fresh());
    ExpectSound();
  }
  AwaitForests();
  ASSERT_TRUE(cluster_->ChangeNode("spine1", IntentAction::kFail).has_value());
  cluster_->Settle();
  EXPECT_EQ(Count(kHits), 3);
  EXPECT_EQ(Count(kMisses), 0);
  EXPECT_TRUE(*Job().active->forest == Fresh());
  ExpectSound();
  const EdgeReservation* edge = cluster_->state().edges.Find(Job().active->reserved.front());
  ASSERT_NE(edge, nullptr);
  EXPECT_EQ(edge->origin, DecisionOrigin::kFailure);
}

TEST_F(BackupForestPlannerTest, ForestsAssumeTheResidualCapacityAfterTheMovesOfFlows) {
  Build();
  Start();
  for (int i = 0; i < 8; ++i) {  // four from each leaf to the next
    cluster_->Open(i, {{.id = 1, .to = (i + 2) % 8}, {.id = 2, .to = (i + 2) % 8}});
  }
  AwaitForests();
  const std::int64_t forests = Count(kForests);
  const std::int64_t moved = Count("espalier_failure_plan_hits_total");
  ASSERT_TRUE(cluster_->ChangeNode("spine0", IntentAction::kFail).has_value());
  cluster_->Settle();
  EXPECT_GT(Count("espalier_failure_plan_hits_total"), moved) << "others were on it";
  EXPECT_EQ(Count(kForests), forests);
  EXPECT_EQ(Job().active->origin, DecisionOrigin::kFailure);
  ExpectSound();
  // A new computation gives the same forest.
  const auto ready = Job().active->forest;
  const std::uint64_t version = Job().active->version;
  EXPECT_FALSE(*ready == Fresh()) << "the others matter";
  ASSERT_EQ(cluster_->Recompute()->moves.size(), 0U);
  cluster_->Advance(1s);
  EXPECT_EQ(Count(kForests), forests + 1);
  EXPECT_EQ(Job().active->version, version);
}

TEST_F(BackupForestPlannerTest, AForestForAnotherResidualCapacityIsReplaced) {
  Build();
  Start();
  AwaitForests();
  const std::int64_t forests = Count(kForests);
  for (int i = 0; i < 2; ++i) cluster_->Open(i, {{.id = 1, .to = 4 + i}});
  cluster_->Settle();
  ASSERT_TRUE(cluster_->ChangeLink("leaf3--spine0", IntentAction::kFail).has_value());
  EXPECT_EQ(Count(kHits), 1);
  cluster_->Advance(1s);
  EXPECT_EQ(Count(kForests), forests + 1);
  ExpectSound();
  const std::uint64_t version = Job().active->version;
  cluster_->Recompute();
  cluster_->Advance(1s);
  EXPECT_EQ(Job().active->version, version) << "it was the one for these";
}

TEST_F(BackupForestPlannerTest, AForestForAnotherTopologyIsNotTaken) {
  Build();
  Start();
  AwaitForests();
  ASSERT_TRUE(cluster_->ChangeLink("leaf1--spine2", IntentAction::kFail).has_value());
  EXPECT_EQ(Coverage().ready, 0U) << "the fabric is another";
  const std::int64_t forests = Count(kForests);
  ASSERT_TRUE(cluster_->ChangeLink("leaf3--spine0", IntentAction::kFail).has_value());
  cluster_->Settle();
  EXPECT_EQ(Count(kMisses), 1);
  EXPECT_EQ(Count(kForests), forests + 1);
  EXPECT_TRUE(*Job().active->forest == Fresh());
  EXPECT_EQ(Job().active->origin, DecisionOrigin::kReactive);
  ExpectSound();
}

TEST_F(BackupForestPlannerTest, ADrainUsesThemAndARestoreDoesNot) {
  Build();
  Start();
  const auto before = Job().active->forest;
  AwaitForests();
  ASSERT_TRUE(cluster_->ChangeLink("leaf1--spine2", IntentAction::kDrain).has_value());
  cluster_->Settle();
  EXPECT_EQ(Count(kHits), 1);
  EXPECT_TRUE(*Job().active->forest == Fresh());
  AwaitForests();
  const auto drained = Job().active->forest;
  ASSERT_TRUE(cluster_->ChangeLink("leaf1--spine2", IntentAction::kUndrain).has_value());
  cluster_->Settle();
  EXPECT_EQ(Count(kHits), 1);
  EXPECT_TRUE(*Job().active->forest == *drained) << "it works: it stays";
  cluster_->Recompute();
  cluster_->Advance(1s);
  EXPECT_TRUE(*Job().active->forest == *before);
}

TEST_F(BackupForestPlannerTest, NoneAreComputedWithoutPlanAhead) {
  Build(Options(/*plan_ahead=*/false));
  Start();
  cluster_->Advance(10s);
  EXPECT_EQ(Count(kMade), 0);
  ASSERT_TRUE(cluster_->ChangeLink("leaf1--spine2", IntentAction::kFail).has_value());
  cluster_->Settle();
  EXPECT_EQ(Count(kMisses), 1);
  EXPECT_TRUE(*Job().active->forest == Fresh());
}

TEST_F(BackupForestPlannerTest, TheyEndWithTheirJob) {
  Build();
  Start();
  AwaitForests();
  EXPECT_GT(cluster_->controller().jobs().ready().bytes(), 0U);
  ASSERT_TRUE(cluster_->StopJob("train").has_value());
  EXPECT_EQ(cluster_->controller().jobs().ready().size(), 0U);
  EXPECT_EQ(cluster_->controller().jobs().ready().bytes(), 0U);
}

// Precomputation stops at once when a forest is needed now.
TEST_F(BackupForestPlannerTest, AFailureStopsTheForestInComputation) {
  std::deque<std::pair<std::function<void()>, std::function<void()>>> waiting;
  ControllerOptions options = Options();
  options.background = [&](auto work, auto done) {
    waiting.emplace_back(std::move(work), std::move(done));
  };
  const auto run_one = [&] {
    const auto [work, done] = std::move(waiting.front());
    waiting.pop_front();
    work();
    done();
  };
  Build(options);
  JobSpec spec{.name = "train", .ranks = {}};
  for (int i = 0; i < 8; ++i) spec.ranks.push_back("h" + std::to_string(i));
  cluster_->controller().actions().StartJob(spec, {}, [](const auto&) {});
  cluster_->Settle();
  run_one();
  cluster_->Settle();
  cluster_->Advance(1s);
  ASSERT_EQ(waiting.size(), 1U) << "one at a time";
  ASSERT_TRUE(cluster_->ChangeLink("leaf0--spine0", IntentAction::kFail).has_value());
  ASSERT_EQ(waiting.size(), 2U) << "it waits for nothing";
  run_one();
  EXPECT_EQ(Count(kMade), 0) << "it was not made, nor kept";
  run_one();
  cluster_->Settle();
  ExpectSound();
  EXPECT_TRUE(*Job().active->forest == Fresh());
}

}  // namespace
}  // namespace espalier::controller
