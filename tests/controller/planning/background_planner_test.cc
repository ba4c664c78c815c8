// When background planning runs, and for what first.
#include "controller/planning/background_planner.h"

#include <gtest/gtest.h>

#include <memory>

#include "common/fabric/builders.h"
#include "common/sim/sim_world.h"

namespace espalier::controller {
namespace {

using namespace std::chrono_literals;

constexpr Duration kUntilStarts = 50us;
constexpr Duration kUntilFailures = 2ms;

// A flow on a path, so that failures of its links can be planned for.
class Planner : public testing::Test {
 protected:
  Planner() {
    Flow flow;
    flow.agent = state_.agents.Intern("h0");
    flow.source_leaf = *state_.topology.FindNode("leaf0");
    flow.destination_leaf = *state_.topology.FindNode("leaf1");
    flow.subflows.resize(1);
    flow.status = FlowStatus::kRouted;
    slot_ = state_.flows.Open(std::move(flow));
    Move(0);
  }
  void Move(std::int32_t path) { state_.decisions.Place(slot_, 0, path); }
  bool HasPlans() const {
    return failures_.loaded() > 0 && failures_.fresh() == failures_.loaded();
  }

  sim::SimWorld world_{1};
  std::unique_ptr<EventLoop> loop_ = world_.MakeLoop();
  ControllerOptions options_;
  Metrics metrics_;
  State state_{*fabric::Topology::Build(
      *fabric::BuildLeafSpine({.spines = 2, .leaves = 2, .hosts_per_leaf = 1}))};
  FlowSlot slot_{0};
  PathLearner learner_{state_.topology, state_.paths, state_.path_map, {}, metrics_};
  StartPredictor predictor_{state_, learner_, options_, metrics_};
  FailurePlans failures_{state_, learner_, metrics_};
  bool has_time_ = true;
  bool is_held_ = false;
  int turns_ = 0;
  BackgroundPlanner planner_{state_,
                             predictor_,
                             failures_,
                             options_,
                             *loop_,
                             {.has_time = [this] { return has_time_; },
                              .is_held = [this] { return is_held_; },
                              .request_turn = [this] { ++turns_; }},
                             metrics_};
};

TEST_F(Planner, PlansStartsFirstAndThenFailures) {
  planner_.Request();
  world_.RunFor(kUntilStarts - 1ns);
  EXPECT_EQ(turns_, 0);
  world_.RunFor(1ns);
  EXPECT_EQ(turns_, 1);  // no job is known: starts are planned
  EXPECT_FALSE(HasPlans());
  world_.RunFor(kUntilFailures);
  EXPECT_TRUE(HasPlans());
  world_.RunFor(kUntilFailures);
  EXPECT_EQ(turns_, 2);
  world_.RunFor(1s);
  EXPECT_EQ(turns_, 2);  // no more without a request
}

TEST_F(Planner, PlansAgainOnlyAfterPathsHaveChanged) {
  planner_.RequestAfterChanges();
  world_.RunFor(1s);
  EXPECT_TRUE(HasPlans());
  const int turns = turns_;
  planner_.RequestAfterChanges();
  world_.RunFor(1s);
  EXPECT_EQ(turns_, turns);
  Move(1);
  EXPECT_FALSE(HasPlans());
  planner_.RequestAfterChanges();
  world_.RunFor(1s);
  EXPECT_TRUE(HasPlans());
}

TEST_F(Planner, PlansNothingIfDisabledOrIfTheLoopIsLate) {
  options_.plan_ahead = false;
  planner_.Request();
  world_.RunFor(1s);
  options_.plan_ahead = true;
  has_time_ = false;
  planner_.Request();
  world_.RunFor(1s);
  EXPECT_EQ(turns_, 0);
  has_time_ = true;
  planner_.Request();
  world_.RunFor(kUntilStarts);
  EXPECT_EQ(turns_, 1);
}

TEST_F(Planner, PausesWhileAgentsAreAwaited) {
  is_held_ = true;
  planner_.Request();
  world_.RunFor(1s);
  EXPECT_EQ(turns_, 0);
  is_held_ = false;
  planner_.Request();
  world_.RunFor(kUntilStarts);
  is_held_ = true;  // before failures are planned
  world_.RunFor(1s);
  EXPECT_FALSE(HasPlans());
}

}  // namespace
}  // namespace espalier::controller
