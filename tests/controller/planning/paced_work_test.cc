// Steps of work that rest in between.
#include "controller/planning/paced_work.h"

#include <gtest/gtest.h>

#include <memory>

#include "common/sim/sim_world.h"

namespace espalier::controller {
namespace {

using namespace std::chrono_literals;

constexpr int kRests = 4;

class Paced : public testing::Test {
 protected:
  void Request(Duration least = 1ms) {
    work_.Request(least, [this] { ++steps_; });
  }

  sim::SimWorld world_{1};
  std::unique_ptr<EventLoop> loop_ = world_.MakeLoop();
  PacedWork work_{*loop_, kRests};
  int steps_ = 0;
};

TEST_F(Paced, AStepRunsOnceAndNotBeforeItsTime) {
  EXPECT_FALSE(work_.IsAwaited());
  Request(1ms);
  Request(0ms);  // one is scheduled already
  EXPECT_TRUE(work_.IsAwaited());
  world_.RunFor(1ms - 1ns);
  EXPECT_EQ(steps_, 0);
  world_.RunFor(1s);
  EXPECT_EQ(steps_, 1);
  EXPECT_FALSE(work_.IsAwaited());
}

TEST_F(Paced, RestsForAMultipleOfTheLastStep) {
  work_.RecordDuration(10ms);
  Request(1ms);
  world_.RunFor(kRests * 10ms - 1ns);
  EXPECT_EQ(steps_, 0);
  world_.RunFor(1ns);
  EXPECT_EQ(steps_, 1);
  work_.RecordDuration(0ms);
  Request(1ms);
  world_.RunFor(1ms);
  EXPECT_EQ(steps_, 2);
}

TEST_F(Paced, AStepMayRequestTheNext) {
  work_.Request(1ms, [this] {
    EXPECT_FALSE(work_.IsAwaited());
    Request();
  });
  world_.RunFor(1ms);
  EXPECT_TRUE(work_.IsAwaited());
  world_.RunFor(1ms);
  EXPECT_EQ(steps_, 1);
}

TEST_F(Paced, DestroyedWorkRunsNoStep) {
  auto work = std::make_unique<PacedWork>(*loop_, kRests);
  work->Request(1ms, [this] { ++steps_; });
  work.reset();
  world_.RunFor(1s);
  EXPECT_EQ(steps_, 0);
}

}  // namespace
}  // namespace espalier::controller
