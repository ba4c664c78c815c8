// Tests the delivery of rank plans to the agents.
#include "controller/forests/plan_delivery.h"

#include <gtest/gtest.h>

#include <vector>

#include "collective/program/program_bytes.h"
#include "collective/program/verifier/structure.h"
#include "tests/controller/forests/running_jobs.h"

namespace espalier::controller {
namespace {

using namespace std::chrono_literals;

class PlanDeliveryTest : public RunningJobs {};

TEST_F(PlanDeliveryTest, GivesEveryRankItsPlanWithPortsThatTakeTheForestsPaths) {
  JobSpec spec = Spec();
  spec.offload = true;
  Start(spec);
  ExpectPlannedSpines();
  const wire::RankPlan& plan = cluster_.host(3).plans.at({"train", 3});
  EXPECT_EQ(plan.ranks, 8U);
  EXPECT_EQ(plan.address, cluster_.Address(3));
  EXPECT_EQ(plan.listen_port, wire::kRoceV2Port);
  EXPECT_TRUE(plan.offload);
  EXPECT_EQ(plan.program, JobOf().active->forest->program.Whole()) << "as of an older agent";
}

TEST_F(PlanDeliveryTest, EachRankGetsItsOwnPartOfTheProgram) {
  for (int host = 0; host < 8; ++host) {
    if (host != 5) cluster_.host(host).features.push_back("rank_programs");
    cluster_.Connect(host);
  }
  Start(Spec());
  const program::EncodedProgram& whole = JobOf().active->forest->program;
  for (int host = 0; host < 8; ++host) {
    const wire::RankPlan& plan =
        cluster_.host(host).plans.at({"train", static_cast<std::uint32_t>(host)});
    const auto program = program::DecodeProgram(plan.program);
    ASSERT_TRUE(program.has_value()) << program.error().message;
    EXPECT_EQ(program->part.has_value(), host != 5);
    EXPECT_EQ(plan.program_version,
              host != 5 ? program::kProgramPartVersion : program::kProgramBytesVersion);
    if (host == 5) continue;
    EXPECT_EQ(program->part->rank, host);
    EXPECT_EQ(program->part->digest, whole.digest());
    EXPECT_EQ(program::CheckPart(*program), std::nullopt);
    EXPECT_LT(plan.program.size(), whole.WholeBytes() / 2);
  }
  ExpectPlannedSpines();
}

TEST_F(PlanDeliveryTest, AnAgentThatComesBackGetsItsPlansAndNoOthers) {
  Start(Spec());
  Start(Spec("short", 3));
  EXPECT_EQ(cluster_.host(1).plans.at({"short", 1}).listen_port, wire::kRoceV2Port + 1);
  cluster_.host(1).peer = PeerId(0);  // hears nothing any more
  cluster_.Advance(4s);
  ASSERT_TRUE(cluster_.StopJob("short").has_value());
  EXPECT_EQ(cluster_.host(1).plans.size(), 2U);
  cluster_.Connect(1);
  cluster_.Advance(3s);
  EXPECT_EQ(cluster_.host(1).plans.size(), 1U);
  EXPECT_TRUE(cluster_.host(1).plans.contains({"train", 1}));
  EXPECT_EQ(StatusOf(), JobStatus::kReady);
  EXPECT_EQ(cluster_.host(0).plans.size(), 1U);
}

TEST_F(PlanDeliveryTest, ALostPushGoesAgain) {
  cluster_.host(2).acknowledges = false;
  ASSERT_TRUE(cluster_.StartJob(Spec()).has_value());
  cluster_.Settle();
  EXPECT_EQ(StatusOf(), JobStatus::kPushing);
  EXPECT_EQ(UnacknowledgedRanks(cluster_.state(), JobOf()), std::vector<std::uint32_t>{2});
  cluster_.host(2).acknowledges = true;
  cluster_.Advance(3s);
  EXPECT_EQ(StatusOf(), JobStatus::kReady);
  ExpectPlannedSpines();
}

}  // namespace
}  // namespace espalier::controller
