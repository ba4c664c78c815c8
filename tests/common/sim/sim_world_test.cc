#include "common/sim/sim_world.h"

#include <gtest/gtest.h>

#include <chrono>
#include <vector>

#include "tests/common/loop/event_loop_contract.h"

namespace espalier::sim {
namespace {

using namespace std::chrono_literals;

class VirtualHarness : public EventLoopHarness {
 public:
  EventLoop& loop() override { return *loop_; }
  bool RunUntil(std::function<bool()> done) override {
    // Other threads may still post, so an idle world is not the end.
    const auto deadline = std::chrono::steady_clock::now() + 60s;
    while (!world_.RunUntil(done, 1h)) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      std::this_thread::yield();
    }
    return true;
  }

 private:
  SimWorld world_{1};
  std::unique_ptr<EventLoop> loop_ = world_.MakeLoop();
};

std::unique_ptr<EventLoopHarness> MakeHarness() { return std::make_unique<VirtualHarness>(); }

TEST(SimWorld, TimePassesOnlyBetweenCallbacks) {
  SimWorld world(1);
  const auto loop = world.MakeLoop();
  const TimePoint start = loop->Now();
  std::vector<Duration> at;
  const TimerPtr a = loop->After(24h, [&] { at.push_back(loop->Now() - start); });
  const TimerPtr b = loop->After(1ns, [&] { at.push_back(loop->Now() - start); });
  world.RunFor(48h);
  EXPECT_EQ(at, (std::vector<Duration>{1ns, 24h}));
  EXPECT_EQ(loop->Now() - start, 48h);
}

TEST(SimWorld, RunForLeavesWhatIsDueLater) {
  SimWorld world(1);
  const auto loop = world.MakeLoop();
  int ran = 0;
  const TimerPtr on_time = loop->After(10ms, [&] { ++ran; });
  const TimerPtr late = loop->After(10ms + 1ns, [&] { ++ran; });
  world.RunFor(10ms);
  EXPECT_EQ(ran, 1);
  world.RunFor(1ns);
  EXPECT_EQ(ran, 2);
}

TEST(SimWorld, RunUntilGivesUpAtItsLimitOrWhenNothingCanHappen) {
  SimWorld world(1);
  const auto loop = world.MakeLoop();
  EXPECT_FALSE(world.RunUntil([] { return false; }, 1h));
  bool ran = false;
  const TimerPtr timer = loop->After(2h, [&] { ran = true; });
  EXPECT_FALSE(world.RunUntil([&] { return ran; }, 1h));
  EXPECT_TRUE(world.RunUntil([&] { return ran; }, 2h));
}

TEST(SimWorld, LoopsShareOneTimeline) {
  SimWorld world(1);
  const auto one = world.MakeLoop();
  const auto two = world.MakeLoop();
  std::vector<int> order;
  const TimerPtr a = one->After(2ms, [&] { order.push_back(3); });
  const TimerPtr b = two->After(1ms, [&] { order.push_back(2); });
  two->Post([&] { order.push_back(0); });
  one->Post([&] { order.push_back(1); });
  const TimerPtr c = two->After(2ms, [&] { order.push_back(4); });
  world.RunFor(1s);
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3, 4}));
}

TEST(SimWorld, ALoopThatDiesTakesItsCallbacksAlong) {
  SimWorld world(1);
  const auto living = world.MakeLoop();
  auto dying = world.MakeLoop();
  bool ran = false;
  auto held = std::make_shared<int>(1);
  dying->Post([&, held] { FAIL(); });
  const TimerPtr timer = dying->After(2ms, [&, held] { FAIL(); });
  const TimerPtr killer = living->After(0ms, [&] { ran = true; });
  dying.reset();
  EXPECT_EQ(held.use_count(), 1);
  world.RunFor(1s);
  EXPECT_TRUE(ran);
}

// A tangle of loops, timers and cancellations that depends on the random numbers.
std::uint64_t RunTangle(std::uint64_t seed) {
  SimWorld world(seed);
  Random random = world.MakeRandom();
  std::vector<std::unique_ptr<EventLoop>> loops;
  for (int i = 0; i < 8; ++i) loops.push_back(world.MakeLoop());
  std::vector<TimerPtr> timers(200);
  int left = 20'000;
  std::function<void()> work = [&] {
    if (--left < 0) return;
    EventLoop& loop = *loops[random.Below(loops.size())];
    timers[random.Below(timers.size())].reset();
    const Duration delay(static_cast<Duration::rep>(random.Below(1000)));
    timers[random.Below(timers.size())] = loop.After(delay, work);
    if (random.Chance(0.3)) loop.Post(work);
  };
  for (int i = 0; i < 50; ++i) loops[0]->Post(work);
  world.RunFor(1s);
  return world.TraceHash();
}

TEST(SimWorld, TheSameSeedGivesTheSameTrace) {
  const std::uint64_t first = RunTangle(7);
  EXPECT_EQ(RunTangle(7), first);
  EXPECT_NE(RunTangle(8), first);
}

TEST(SimWorld, BytesArePartOfTheTrace) {
  SimWorld one(1);
  SimWorld two(1);
  one.Trace("a");
  two.Trace("b");
  EXPECT_NE(one.TraceHash(), two.TraceHash());
}

// Compares the world with a plain list that is searched for its least element.
TEST(SimWorld, RunsCallbacksAsASlowListWould) {
  struct Due {
    TimePoint at;
    int number;
  };
  SimWorld world(1);
  const auto loop = world.MakeLoop();
  Random random(99);
  std::vector<Due> expected;
  std::vector<TimerPtr> timers;
  std::vector<int> ran;
  for (int i = 0; i < 5000; ++i) {
    const Duration delay(static_cast<Duration::rep>(1 + random.Below(500)));
    expected.push_back({loop->Now() + delay, i});
    timers.push_back(loop->After(delay, [&ran, i] { ran.push_back(i); }));
    if (random.Chance(0.4)) {
      const std::size_t victim = random.Below(timers.size());
      timers[victim].reset();
      std::erase_if(expected, [&](const Due& due) {
        return due.number == static_cast<int>(victim) &&
               std::find(ran.begin(), ran.end(), due.number) == ran.end();
      });
    }
    if (random.Chance(0.3)) world.Step();
  }
  world.RunFor(1s);
  std::stable_sort(expected.begin(), expected.end(),
                   [](const Due& a, const Due& b) { return a.at < b.at; });
  ASSERT_EQ(ran.size(), expected.size());
  for (std::size_t i = 0; i < ran.size(); ++i) EXPECT_EQ(ran[i], expected[i].number);
}

}  // namespace

INSTANTIATE_TEST_SUITE_P(Virtual, EventLoopContract, testing::Values(&MakeHarness));

}  // namespace espalier::sim
