#include "controller/planning/phase_plan.h"

#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <utility>

#include "tests/controller/placement/arrivals/bursts_fixture.h"

namespace espalier::controller {
namespace {

// Once the phases are known and planned for, plans are computed when the test says so, on a thread
// of their own.
class PhasePlanTest : public BurstsTest {
 protected:
  PhasePlanTest()
      : BurstsTest({.background = [this](std::function<void()> work, std::function<void()> done) {
          if (waits_) return waiting_.emplace_back(std::move(work), std::move(done)), void();
          work();
          done();
        }}) {
    OpenConnections();
    RunPeriods(12);
    waits_ = true;
    plans_ = cluster_.CounterValue(kPlans);
  }

  // A link that no flow uses.
  void ChangeUnusedLink(IntentAction action) {
    ASSERT_TRUE(cluster_.ChangeLink("leaf2--spine0", action).has_value());
    cluster_.Advance(600ms);
  }
  bool HasPlanOf(int flows) const {
    return cluster_.MetricsText().find("\nespalier_phase_plan_flows " + std::to_string(flows) +
                                       "\n") != std::string::npos;
  }
  std::int64_t NewPlans() { return cluster_.CounterValue(kPlans) - plans_; }
  void ComputePlan() {
    const auto [work, done] = std::move(waiting_.front());
    waiting_.pop_front();
    std::thread(work).join();
    done();
    cluster_.Advance(200ms);  // until it is taken
  }

  std::deque<std::pair<std::function<void()>, std::function<void()>>> waiting_;
  bool waits_ = false;
  std::int64_t plans_ = 0;  // before
};

TEST_F(PhasePlanTest, EdgesAreHandledWhileAPlanIsBeingComputed) {
  ChangeUnusedLink(IntentAction::kFail);
  ASSERT_EQ(waiting_.size(), 1U);
  const std::int64_t undecided = cluster_.CounterValue(kUndecided);
  const std::size_t pushes = PushesSoFar();
  RunPeriods(3);
  EXPECT_EQ(cluster_.CounterValue(kUndecided), undecided + 3 * 4);
  EXPECT_EQ(max_load_, (Load{1, 1}));
  EXPECT_EQ(PushesSoFar(), pushes);
  EXPECT_EQ(waiting_.size(), 1U);  // no other one is begun
  EXPECT_EQ(NewPlans(), 0);
  ComputePlan();
  EXPECT_EQ(NewPlans(), 1);
  EXPECT_TRUE(HasPlanOf(4));
  RunPeriods(2);
  EXPECT_EQ(max_load_, (Load{1, 1}));
}

TEST_F(PhasePlanTest, AFlowThatClosesMeanwhileIsNotPlannedNorIsTheOneInItsPlace) {
  ChangeUnusedLink(IntentAction::kFail);
  ASSERT_EQ(waiting_.size(), 1U);
  const std::size_t slots = cluster_.state().flows.slot_count();
  cluster_.End(0, 1);
  cluster_.Settle();
  wire::FlowReport report = Cluster::Opening(cluster_, 0, {{.id = 2, .to = 4, .job = "other"}});
  report.progress = {Row(2)};
  report.progress.front().id = wire::LocalFlowId(2);
  cluster_.Report(0, report);
  cluster_.Settle();
  ASSERT_EQ(cluster_.state().flows.slot_count(), slots);  // it is in the place of the other
  ComputePlan();
  EXPECT_TRUE(HasPlanOf(3));
  EXPECT_FALSE(cluster_.FlowOf(0, 2).is_parked);
  EXPECT_TRUE(cluster_.FlowOf(1, 1).is_parked);
  cluster_.state().flow_paths.CheckInvariants();
  cluster_.Advance(1s);
  EXPECT_EQ(waiting_.size(), 1U);  // a plan without it
}

TEST_F(PhasePlanTest, APlanForLinksThatHaveChangedMeanwhileIsDropped) {
  ChangeUnusedLink(IntentAction::kFail);
  ASSERT_EQ(waiting_.size(), 1U);
  ChangeUnusedLink(IntentAction::kRestore);
  ComputePlan();
  EXPECT_EQ(NewPlans(), 0);
  cluster_.Advance(1s);
  ASSERT_EQ(waiting_.size(), 1U);
  ComputePlan();
  EXPECT_EQ(NewPlans(), 1);
}

// Links that change more often than a plan takes must not keep it out for ever.
TEST_F(PhasePlanTest, APlanForLinksThatChangeAgainAndAgainIsDroppedOnce) {
  ChangeUnusedLink(IntentAction::kFail);
  ChangeUnusedLink(IntentAction::kRestore);
  ComputePlan();
  EXPECT_EQ(NewPlans(), 0);
  cluster_.Advance(1s);
  ChangeUnusedLink(IntentAction::kFail);
  ComputePlan();
  EXPECT_EQ(NewPlans(), 1);
  EXPECT_TRUE(HasPlanOf(4));
  cluster_.Advance(1s);
  ASSERT_EQ(waiting_.size(), 1U);  // the next one is for the links as they are
  ComputePlan();
  EXPECT_EQ(NewPlans(), 2);
  RunPeriods(2);
  EXPECT_EQ(max_load_, (Load{1, 1}));
}

// A plan that takes long must not be followed by another one at once.
TEST_F(PhasePlanTest, PlansTakeAtMostHalfOfTheTime) {
  ChangeUnusedLink(IntentAction::kFail);
  cluster_.Advance(5s);
  ComputePlan();
  EXPECT_EQ(NewPlans(), 1);
  // Other flows, which the phases are planned around.
  cluster_.Open(2, {{.id = 9, .to = 7, .job = "other"}});
  cluster_.Settle();
  cluster_.Advance(4s);
  EXPECT_TRUE(waiting_.empty());
  cluster_.Advance(2s);
  EXPECT_EQ(waiting_.size(), 1U);
}

// Until there is a plan for the links that are left, flows leave the dead path, and all others keep
// their paths without a decision.
TEST_F(PhasePlanTest, AFailedLinkConcernsOnlyTheFlowsOnItWhileThePlanIsComputedAnew) {
  const auto spine_of = [&](int host) { return cluster_.AppliedSpine(host, 1, host + 4); };
  const int spine = spine_of(0);
  std::map<int, int> others;
  for (const int host : {1, 2, 3}) {
    if (spine_of(host) != spine) others[host] = spine_of(host);
  }
  ASSERT_FALSE(others.empty());
  const std::size_t pushes = cluster_.host(others.begin()->first).pushes.size();
  ASSERT_TRUE(
      cluster_.ChangeLink("leaf0--spine" + std::to_string(spine), IntentAction::kFail).has_value());
  RunPeriods(2);
  ASSERT_EQ(waiting_.size(), 1U);
  for (const int host : {0, 1, 2, 3}) {
    EXPECT_NE(spine_of(host), spine);
    EXPECT_TRUE(cluster_.FlowOf(host, 1).is_parked);
  }
  EXPECT_EQ(cluster_.host(others.begin()->first).pushes.size(), pushes);
  ComputePlan();
  RunPeriods(1);
  for (const int host : {0, 1, 2, 3}) EXPECT_NE(spine_of(host), spine);
  EXPECT_EQ(NewPlans(), 1);
}

}  // namespace
}  // namespace espalier::controller
