// Tests the user of a job: which agents get it, and which get no plan because of it.
#include <gtest/gtest.h>

#include <string>

#include "tests/controller/cluster.h"

namespace espalier::controller {
namespace {

using namespace std::chrono_literals;

class JobUserTest : public testing::Test {
 protected:
  static ControllerOptions Options() {
    ControllerOptions options;
    options.fabric_hashes_protocol = false;  // what UDP probes learn holds for TCP
    options.verification.interval = {};
    return options;
  }
  JobUserTest() : cluster_({.spines = 2, .leaves = 2, .hosts_per_leaf = 2}, Options()) {
    cluster_.ConnectAll();
  }
  static JobSpec Spec(const std::string& name, const std::string& user) {
    return {.name = name, .ranks = {"h0", "h1", "h2", "h3"}, .user = user};
  }
  void Start(const JobSpec& spec) {
    const auto started = cluster_.StartJob(spec);
    ASSERT_TRUE(started.has_value()) << started.error().message;
    cluster_.Advance(1s);
    ASSERT_EQ(StatusOf(spec.name), JobStatus::kReady);
  }
  JobStatus StatusOf(const std::string& name) {
    const TreeJobs& jobs = cluster_.controller().jobs();
    return jobs.StatusOf(jobs.all().at(name));
  }
  std::string UserOf(const std::string& name, int rank) {
    return cluster_.host(rank).plans.at({name, static_cast<std::uint32_t>(rank)}).user;
  }

  Cluster cluster_;
};

TEST_F(JobUserTest, IsInThePlansOfAllRanks) {
  Start(Spec("of_alice", "alice"));
  Start(Spec("of_anybody", ""));
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(UserOf("of_alice", rank), "alice");
    EXPECT_EQ(UserOf("of_anybody", rank), "");
  }
}

TEST_F(JobUserTest, StaysOverARestartOfTheController) {
  Start(Spec("train", "alice"));
  for (int rank = 0; rank < 4; ++rank) cluster_.host(rank).plans.clear();
  cluster_.RestartController();
  cluster_.ConnectAll();
  cluster_.Advance(1s);
  for (int rank = 0; rank < 4; ++rank) EXPECT_EQ(UserOf("train", rank), "alice");
}

TEST_F(JobUserTest, IsNotChangedWhileTheJobRuns) {
  Start(Spec("train", "alice"));
  EXPECT_EQ(cluster_.StartJob(Spec("train", "alice")).error().code, ErrorCode::kAlreadyExists);
  EXPECT_EQ(cluster_.StartJob(Spec("train", "bob")).error().code, ErrorCode::kFailedPrecondition);
  EXPECT_EQ(cluster_.StartJob(Spec("train", "")).error().code, ErrorCode::kFailedPrecondition);
  EXPECT_EQ(UserOf("train", 0), "alice");
}

// Such agents would give the plan, and the job's key, to any program.
TEST_F(JobUserTest, AgentsThatDoNotSupportItGetNoPlans) {
  cluster_.host(2).features = {"collective"};
  cluster_.Connect(2);
  const auto refused = cluster_.StartJob(Spec("train", "alice"));
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().message,
            "rank 2 (h2): agent h2 does not support \"job_user\" (upgrade it, or check its "
            "configuration)");
  EXPECT_TRUE(cluster_.StartJob(Spec("of_anybody", "")).has_value());
}

TEST_F(JobUserTest, AnAgentThatComesBackAsAnOlderOneLosesThePlan) {
  Start(Spec("train", "alice"));
  cluster_.host(2).features = {"collective"};
  cluster_.host(2).plans.clear();
  cluster_.Connect(2);
  cluster_.Advance(1s);
  EXPECT_TRUE(cluster_.host(2).plans.empty());
  EXPECT_EQ(StatusOf("train"), JobStatus::kPushing);
  cluster_.host(2).features = {"collective", "job_user"};
  cluster_.Connect(2);
  cluster_.Advance(1s);
  EXPECT_EQ(UserOf("train", 2), "alice");
  EXPECT_EQ(StatusOf("train"), JobStatus::kReady);
}

}  // namespace
}  // namespace espalier::controller
