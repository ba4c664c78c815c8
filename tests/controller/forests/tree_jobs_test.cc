#include "controller/forests/tree_jobs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>

#include "tests/controller/forests/running_jobs.h"

namespace espalier::controller {
namespace {

using namespace std::chrono_literals;

class TreeJobsTest : public RunningJobs {};

TEST_F(TreeJobsTest, PlansLeaveADrainedLinkAndReturnByARecompute) {
  Start(Spec());
  const auto forest = JobOf().active->forest;
  ASSERT_TRUE(cluster_.ChangeLink("leaf1--spine2", IntentAction::kDrain).has_value());
  cluster_.Advance(1s);
  EXPECT_FALSE(*JobOf().active->forest == *forest);
  const std::uint64_t version = JobOf().active->version;
  ASSERT_TRUE(cluster_.ChangeLink("leaf1--spine2", IntentAction::kUndrain).has_value());
  cluster_.Advance(1s);
  EXPECT_EQ(JobOf().active->version, version);
  const auto recomputed = cluster_.Recompute();
  ASSERT_TRUE(recomputed.has_value());
  EXPECT_EQ(recomputed->forests, 1U);
  cluster_.Advance(1s);
  EXPECT_TRUE(*JobOf().active->forest == *forest);
  ExpectPlannedSpines();
}

TEST_F(TreeJobsTest, ASecondRecomputeChangesNothing) {
  Start(Spec());
  const std::uint64_t version = JobOf().active->version;
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(cluster_.Recompute().has_value());
    cluster_.Advance(1s);
  }
  EXPECT_EQ(JobOf().active->version, version);
  EXPECT_EQ(StatusOf(), JobStatus::kReady);
}

// Leaf 0 has only spine 0 and leaf 1 only spine 1: their traffic is relayed by other ranks.
TEST_F(TreeJobsTest, IsNotStuckWhereTwoLeavesShareNoSpine) {
  Start(Spec());
  for (const char* link : {"leaf0--spine1", "leaf0--spine2", "leaf0--spine3", "leaf1--spine0",
                           "leaf1--spine2", "leaf1--spine3"}) {
    ASSERT_TRUE(cluster_.ChangeLink(link, IntentAction::kFail).has_value());
    cluster_.Advance(1s);
    ASSERT_EQ(StatusOf(), JobStatus::kReady) << link << ": " << JobOf().problem;
  }
  ExpectPlannedSpines();
  for (const TreeEdge& edge : JobOf().active->forest->edges) {
    EXPECT_FALSE(edge.from / 2 + edge.to / 2 == 1) << edge.from << " to " << edge.to;
  }
  // A new job can be started, too.
  Start(Spec("other", 6));
}

TEST_F(TreeJobsTest, KeepsItsPlanIfThereIsNoForestAndRecovers) {
  Start(Spec());
  ASSERT_TRUE(cluster_.ChangeNode("leaf1", IntentAction::kFail).has_value());
  cluster_.Advance(1s);
  EXPECT_EQ(StatusOf(), JobStatus::kStuck);
  EXPECT_NE(JobOf().problem, "");
  EXPECT_TRUE(JobOf().active.has_value());
  ASSERT_TRUE(cluster_.ChangeNode("leaf1", IntentAction::kRestore).has_value());
  cluster_.Advance(1s);
  EXPECT_EQ(StatusOf(), JobStatus::kReady);
}

TEST_F(TreeJobsTest, SurvivesARestartOfTheController) {
  Start(Spec());
  const std::uint64_t version = JobOf().active->version;
  cluster_.RestartController();
  cluster_.ConnectAll();
  cluster_.Advance(3s);
  ASSERT_EQ(StatusOf(), JobStatus::kReady);
  EXPECT_GT(JobOf().active->version, version);
  ExpectPlannedSpines();
}

TEST_F(TreeJobsTest, AnUnreadableJobIsReportedAndCanBeStopped) {
  Start(Spec());
  Intents& stored = cluster_.disk.sets.at(cluster_.disk.revision).first;
  stored.jobs.at("train").value = UnreadableValue{"allreduce x inline"};
  cluster_.RestartController();
  EXPECT_TRUE(cluster_.controller().jobs().all().empty());
  const auto events = cluster_.state().history.Since(0, 1'000);
  EXPECT_EQ(std::ranges::count_if(events,
                                  [](const auto& event) {
                                    return event.kind == "job_unreadable" &&
                                           event.text ==
                                               "job train: its entry in the store cannot be read";
                                  }),
            1);
  EXPECT_TRUE(cluster_.StopJob("train").has_value());
  EXPECT_TRUE(cluster_.state().intents.jobs.empty());
}

TEST_F(TreeJobsTest, AnInvalidJobIsRefusedAndChangesNothing) {
  const auto refusal = [&](const JobSpec& spec) {
    const auto started = cluster_.StartJob(spec);
    EXPECT_FALSE(started.has_value());
    return started ? Error{} : started.error();
  };
  JobSpec unknown = Spec();
  unknown.ranks.push_back("h99");
  EXPECT_EQ(refusal(unknown).message,
            "there is no node \"h99\" (name compute nodes of the topology as ranks)");
  JobSpec twice = Spec();
  twice.ranks.push_back("h0");
  EXPECT_EQ(refusal(twice).message, "h0 is named twice among the ranks");
  JobSpec of_switches = Spec();
  of_switches.ranks.push_back("leaf0");
  EXPECT_EQ(refusal(of_switches).code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(refusal(Spec("one", 1)).message, "a job needs at least two ranks, not 1");
  EXPECT_EQ(refusal(Spec("", 2)).code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(refusal(Spec("a\nb", 2)).code, ErrorCode::kInvalidArgument);

  cluster_.host(5).peer = PeerId(0);
  cluster_.Advance(4s);
  EXPECT_EQ(refusal(Spec()).message,
            "rank 5 (h5): agent h5 is not connected (start it, or look at its log)");
  cluster_.host(5).features = {"probe"};
  cluster_.Connect(5);
  EXPECT_EQ(refusal(Spec()).message,
            "rank 5 (h5): agent h5 does not support \"collective\" (upgrade it, or check its "
            "configuration)");
  ASSERT_TRUE(cluster_.ChangeNode("leaf1", IntentAction::kFail).has_value());
  EXPECT_EQ(refusal(Spec("cut", 4)).code, ErrorCode::kFailedPrecondition);
  EXPECT_EQ(cluster_.StopJob("train").error().code, ErrorCode::kNotFound);
  EXPECT_TRUE(cluster_.state().intents.jobs.empty());
  EXPECT_TRUE(cluster_.controller().jobs().all().empty());
  EXPECT_EQ(cluster_.disk.audit.back().result, AuditResult::kRefused);
}

TEST_F(TreeJobsTest, ANameIsTakenOnce) {
  Start(Spec());
  EXPECT_EQ(cluster_.StartJob(Spec()).error().code, ErrorCode::kAlreadyExists);
  EXPECT_EQ(cluster_.StartJob(Spec("train", 4)).error().code, ErrorCode::kFailedPrecondition);
  EXPECT_EQ(JobOf().ranks.size(), 8U);
}

TEST_F(TreeJobsTest, ADryRunStartsNothing) {
  EXPECT_TRUE(cluster_.StartJob(Spec(), {.dry_run = true}).has_value());
  EXPECT_TRUE(cluster_.controller().jobs().all().empty());
}

TEST_F(TreeJobsTest, ARollbackEndsAndBringsBackJobs) {
  Start(Spec());
  ASSERT_TRUE(cluster_.RollBack(0).has_value());
  cluster_.Settle();
  EXPECT_TRUE(cluster_.controller().jobs().all().empty());
  EXPECT_TRUE(cluster_.host(0).plans.empty());
  ASSERT_TRUE(cluster_.RollBack(1).has_value());
  cluster_.Advance(1s);
  EXPECT_EQ(StatusOf(), JobStatus::kReady);
}

TEST_F(TreeJobsTest, TakesReportsOfItsRanksOnly) {
  Start(Spec());
  cluster_.Deliver(cluster_.host(2).peer, cluster_.host(2).instance,
                   wire::CollectiveReport{.job = "train",
                                          .rank = 2,
                                          .sequence = 7,
                                          .collective = "allreduce",
                                          .bytes = 1'000,
                                          .duration_us = 90});
  EXPECT_EQ(JobOf().collectives, 7U);
  cluster_.Deliver(cluster_.host(2).peer, cluster_.host(2).instance,
                   wire::CollectiveReport{.job = "train", .rank = 3, .sequence = 8});
  EXPECT_EQ(JobOf().collectives, 7U);
  EXPECT_EQ(cluster_.CounterValue("espalier_controller_bad_messages_total"), 1);
  cluster_.Deliver(cluster_.host(2).peer, cluster_.host(2).instance,
                   wire::CollectiveReport{.job = "train", .rank = 2, .error = "timed out"});
  EXPECT_EQ(JobOf().last_failure, "rank 2: timed out");
}

// Background work that runs when the test says so.
struct Aside {
  std::deque<std::pair<std::function<void()>, std::function<void()>>> waiting;
  void RunOne() {
    const auto [work, done] = std::move(waiting.front());
    waiting.pop_front();
    work();
    done();
  }
};

TEST(TreeJobsAside, AnOutdatedForestIsDropped) {
  Aside aside;
  ControllerOptions options{.fabric_hashes_protocol = false, .plan_ahead = false};
  options.background = [&](auto work, auto done) {
    aside.waiting.emplace_back(std::move(work), std::move(done));
  };
  Cluster cluster(kFastHosts, options);
  cluster.ConnectAll();
  JobSpec spec{.name = "train", .ranks = {"h0", "h2", "h4", "h6"}};
  std::optional<Result<ActionOutcome>> started;
  cluster.controller().actions().StartJob(spec, {}, [&](auto outcome) { started = outcome; });
  cluster.Settle();
  EXPECT_FALSE(started.has_value());
  aside.RunOne();
  cluster.Settle();
  ASSERT_TRUE(started.has_value() && *started);
  const TreeJob& job = cluster.controller().jobs().all().at("train");
  ASSERT_TRUE(job.active.has_value());

  ASSERT_TRUE(cluster.ChangeLink("leaf0--spine0", IntentAction::kFail).has_value());
  ASSERT_TRUE(cluster.ChangeLink("leaf1--spine1", IntentAction::kFail).has_value());
  ASSERT_EQ(aside.waiting.size(), 2U);
  EXPECT_EQ(cluster.controller().jobs().StatusOf(job), JobStatus::kPlanning);
  aside.RunOne();
  EXPECT_EQ(cluster.CounterValue("espalier_controller_forests_dropped_total"), 1);
  EXPECT_EQ(cluster.controller().jobs().StatusOf(job), JobStatus::kPlanning);
  aside.RunOne();
  cluster.Advance(1s);
  EXPECT_EQ(cluster.controller().jobs().StatusOf(job), JobStatus::kReady);

  // The forest of a job that has ended meanwhile.
  ASSERT_TRUE(cluster.ChangeLink("leaf2--spine0", IntentAction::kFail).has_value());
  ASSERT_TRUE(cluster.StopJob("train").has_value());
  aside.RunOne();
  EXPECT_EQ(cluster.CounterValue("espalier_controller_forests_dropped_total"), 2);
}

}  // namespace
}  // namespace espalier::controller
