#include "deploy/lab/workload/phase_member.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace espalier::traffic {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

TEST(PhaseMember, SendsWaitsAndGoesOnInEveryIteration) {
  PhaseMember member(2, {{{.flow = 3, .bytes = 10}, {.flow = 4, .bytes = 20}}, {{3, 5}}});
  for (int iteration = 0; iteration < 2; ++iteration) {
    const std::int64_t sent = 15 * iteration;
    EXPECT_EQ(member.iteration(), iteration);
    EXPECT_EQ(member.phase(), 0);
    EXPECT_THAT(member.BeginPhase(), SizeIs(2));
    EXPECT_FALSE(member.HandleAcknowledged(3, sent + 9));
    EXPECT_TRUE(member.HandleAcknowledged(3, sent + 10));
    EXPECT_FALSE(member.HandleAcknowledged(3, sent + 10));
    EXPECT_FALSE(member.IsWaiting());
    EXPECT_TRUE(member.HandleAcknowledged(4, 20 * (iteration + 1)));
    EXPECT_TRUE(member.IsWaiting());
    EXPECT_FALSE(member.IsOver());
    member.HandleReleased();
    EXPECT_FALSE(member.IsWaiting());
    EXPECT_EQ(member.phase(), 1);
    EXPECT_THAT(member.BeginPhase(), SizeIs(1));
    EXPECT_TRUE(member.HandleAcknowledged(3, sent + 15));
    member.HandleReleased();
  }
  EXPECT_TRUE(member.IsOver());
  EXPECT_EQ(member.step(), 4);
}

TEST(PhaseMember, WaitsAtOnceInAPhaseInWhichItSendsNothing) {
  PhaseMember member(1, {{}, {{.flow = 1, .bytes = 1}}});
  EXPECT_FALSE(member.IsWaiting());
  EXPECT_THAT(member.BeginPhase(), IsEmpty());
  EXPECT_TRUE(member.IsWaiting());
}

TEST(BurstsOfHost, NamesTheFlowsOfTheWorkload) {
  Workload workload;
  workload.flows = {{.id = "f", .source = "a", .destination = "b", .bytes = 1}};
  const PhasedJob job{.id = "J",
                      .phases = {{.bursts = {{"a", "b", 10}, {"b", "a", 20}}},
                                 {.bursts = {{"b", "c", 30}}},
                                 {.bursts = {{"a", "b", 40}}}}};
  workload.phased_jobs = {job};
  const std::vector<WorkloadFlow> flows = ListWorkloadFlows(workload);
  const auto of_a = BurstsOfHost(job, 0, "a", flows);
  ASSERT_THAT(of_a, SizeIs(3));
  ASSERT_THAT(of_a[0], SizeIs(1));
  EXPECT_EQ(of_a[0][0].flow, 1U);
  EXPECT_EQ(of_a[0][0].bytes, 10);
  EXPECT_THAT(of_a[1], IsEmpty());
  EXPECT_EQ(of_a[2][0].flow, 1U);
  EXPECT_EQ(of_a[2][0].bytes, 40);
  EXPECT_THAT(BurstsOfHost(job, 0, "c", flows), ElementsAre(IsEmpty(), IsEmpty(), IsEmpty()));
  EXPECT_THAT(HostsOfJob(job), ElementsAre("a", "b", "c"));
}

}  // namespace
}  // namespace espalier::traffic
