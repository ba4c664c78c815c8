#include "deploy/lab/traffic/phased_part.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "common/sim/sim_world.h"

namespace espalier::traffic {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::IsEmpty;

// A part whose job computes 100 ms and 200 ms before its two phases; in virtual time.
class PhasedPartTest : public testing::Test {
 protected:
  PhasedPart MakePart(double period_seconds, int iterations = 2) {
    const PhasedJob job{.id = "A",
                        .iterations = iterations,
                        .period_seconds = period_seconds,
                        .phases = {{.compute_seconds = 0.1}, {.compute_seconds = 0.2}}};
    return {*loop_,
            PhaseSchedule(job, 0, 1),
            PhaseMember(iterations, {{{.flow = 1, .bytes = 10}}, {}}),
            {.send = [this](std::uint32_t, std::int64_t) { Note("send"); },
             .arrive = [this](int step) { Note("arrive " + std::to_string(step)); },
             .on_over = [this] { Note("over"); }}};
  }

  void Note(const std::string& what) { done_.push_back(what); }
  std::vector<std::string> DoneWithin(Duration time) {
    done_.clear();
    world_.RunFor(time);
    return done_;
  }

  sim::SimWorld world_{1};
  std::unique_ptr<EventLoop> loop_ = world_.MakeLoop();
  std::vector<std::string> done_;
};

TEST_F(PhasedPartTest, ComputesSendsAndWaitsForAllHosts) {
  PhasedPart part = MakePart(0);
  part.Start();
  EXPECT_THAT(DoneWithin(milliseconds(99)), IsEmpty());
  EXPECT_THAT(DoneWithin(milliseconds(2)), ElementsAre("send"));
  world_.RunFor(milliseconds(50));
  part.HandleAcknowledged(1, 9, {});
  EXPECT_THAT(part.bursts(), IsEmpty());
  const std::vector<std::uint16_t> ports = {50'000, 50'001};
  part.HandleAcknowledged(1, 10, ports);
  EXPECT_EQ(done_.back(), "arrive 0");
  ASSERT_EQ(part.bursts().size(), 1U);
  EXPECT_EQ(part.bursts()[0].flow, 1U);
  EXPECT_EQ(part.bursts()[0].ports, ports);
  EXPECT_EQ(part.bursts()[0].end_ns - part.bursts()[0].start_ns, 51'000'000);
  EXPECT_THAT(DoneWithin(milliseconds(1000)), IsEmpty());  // others still send
  part.HandleReleased();
  EXPECT_THAT(DoneWithin(milliseconds(201)), ElementsAre("arrive 1"));  // sends nothing here
  part.HandleReleased();
  EXPECT_THAT(DoneWithin(milliseconds(101)), ElementsAre("send"));
  part.HandleAcknowledged(1, 20, ports);
  part.HandleReleased();
  world_.RunFor(milliseconds(201));
  EXPECT_FALSE(part.IsOver());
  part.HandleReleased();
  EXPECT_EQ(done_.back(), "over");
  EXPECT_TRUE(part.IsOver());
}

TEST_F(PhasedPartTest, BeginsAnIterationWhenItsPeriodIsOver) {
  PhasedPart part = MakePart(1);
  part.Start();
  world_.RunFor(milliseconds(100));
  part.HandleAcknowledged(1, 10, {});
  part.HandleReleased();
  world_.RunFor(milliseconds(200));
  part.HandleReleased();  // after 300 ms
  EXPECT_THAT(DoneWithin(milliseconds(799)), IsEmpty());
  EXPECT_THAT(DoneWithin(milliseconds(2)), ElementsAre("send"));
}

}  // namespace
}  // namespace espalier::traffic
