#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "common/base/time/event_loop.h"

// The contract of every EventLoop: instantiate EventLoopContract with a factory of harnesses.
namespace espalier {

class EventLoopHarness {
 public:
  virtual ~EventLoopHarness() = default;
  virtual EventLoop& loop() = 0;
  // Runs the loop until done() is true; returns false if that takes far too long.
  virtual bool RunUntil(std::function<bool()> done) = 0;
};

using EventLoopHarnessFactory = std::function<std::unique_ptr<EventLoopHarness>()>;

class EventLoopContract : public testing::TestWithParam<EventLoopHarnessFactory> {
 protected:
  EventLoop& loop() { return harness_->loop(); }
  void RunUntil(std::function<bool()> done) { ASSERT_TRUE(harness_->RunUntil(std::move(done))); }
  // Runs the loop until a timer of `delay` that is started now has expired.
  void RunFor(Duration delay) {
    bool rung = false;
    const TimerPtr timer = loop().After(delay, [&] { rung = true; });
    RunUntil([&] { return rung; });
  }

 private:
  std::unique_ptr<EventLoopHarness> harness_ = GetParam()();
};

using namespace std::chrono_literals;

TEST_P(EventLoopContract, RunsPostedCallbacksInOrderAndNeverInsidePost) {
  std::vector<int> ran;
  for (int i = 0; i < 100; ++i) {
    loop().Post([&ran, i] { ran.push_back(i); });
  }
  EXPECT_TRUE(ran.empty());
  RunUntil([&] { return ran.size() == 100; });
  for (int i = 0; i < 100; ++i) EXPECT_EQ(ran[static_cast<std::size_t>(i)], i);
}

TEST_P(EventLoopContract, PostFromACallbackRunsAfterThatCallback) {
  std::vector<int> ran;
  loop().Post([&] {
    loop().Post([&] { ran.push_back(2); });
    ran.push_back(1);
  });
  RunUntil([&] { return ran.size() == 2; });
  EXPECT_EQ(ran, (std::vector<int>{1, 2}));
}

TEST_P(EventLoopContract, PostFromOtherThreadsKeepsEachThreadsOrder) {
  constexpr int kThreads = 4;
  constexpr int kPosts = 1000;
  std::vector<std::vector<int>> ran(kThreads);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kPosts; ++i) {
        loop().Post([&ran, t, i] { ran[t].push_back(i); });
      }
    });
  }
  RunUntil([&] {
    return std::all_of(ran.begin(), ran.end(), [](const auto& r) { return r.size() == kPosts; });
  });
  for (std::thread& thread : threads) thread.join();
  for (const std::vector<int>& order : ran) EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
}

TEST_P(EventLoopContract, TimersRunInTheOrderOfTheirDeadlines) {
  std::vector<int> ran;
  const TimerPtr late = loop().After(3ms, [&] { ran.push_back(3); });
  const TimerPtr early = loop().After(1ms, [&] { ran.push_back(1); });
  const TimerPtr middle = loop().After(2ms, [&] { ran.push_back(2); });
  RunUntil([&] { return ran.size() == 3; });
  EXPECT_EQ(ran, (std::vector<int>{1, 2, 3}));
}

TEST_P(EventLoopContract, TimersOfOneDelayRunInTheOrderOfTheirMaking) {
  std::vector<int> ran;
  std::vector<TimerPtr> timers;
  for (int i = 0; i < 200; ++i) {
    timers.push_back(loop().After(1ms, [&ran, i] { ran.push_back(i); }));
  }
  RunUntil([&] { return ran.size() == 200; });
  EXPECT_TRUE(std::is_sorted(ran.begin(), ran.end()));
}

TEST_P(EventLoopContract, NoTimerRunsEarlyAndTheClockNeverGoesBack) {
  const TimePoint start = loop().Now();
  TimePoint rang = start;
  const TimerPtr timer = loop().After(2ms, [&] { rang = loop().Now(); });
  RunUntil([&] { return rang != start; });
  EXPECT_GE(rang - start, 2ms);
  EXPECT_GE(loop().Now(), rang);
}

TEST_P(EventLoopContract, ADelayThatHasPassedMeansAtOnceButNotInsideAfter) {
  bool ran = false;
  const TimerPtr timer = loop().After(-1h, [&] { ran = true; });
  EXPECT_FALSE(ran);
  RunUntil([&] { return ran; });
}

TEST_P(EventLoopContract, AnEndlessDelayIsAllowed) {
  const TimerPtr timer = loop().After(Duration::max(), [] { FAIL(); });
  RunFor(1ms);
}

TEST_P(EventLoopContract, ADestroyedTimerNeverRuns) {
  bool ran = false;
  TimerPtr timer = loop().After(1ms, [&] { ran = true; });
  timer.reset();
  RunFor(3ms);
  EXPECT_FALSE(ran);
}

TEST_P(EventLoopContract, ATimerDestroyedByAnotherThatIsDueAtTheSameTimeNeverRuns) {
  bool ran = false;
  TimerPtr second;
  const TimerPtr first = loop().After(0ms, [&] { second.reset(); });
  second = loop().After(0ms, [&] { ran = true; });
  RunFor(1ms);
  EXPECT_FALSE(ran);
}

TEST_P(EventLoopContract, ATimerMayBeDestroyedInsideItsOwnCallback) {
  int runs = 0;
  TimerPtr timer;
  // The callback is destroyed with its captures; using them afterwards must still be safe.
  timer = loop().After(1ms, [&, held = std::make_shared<int>(7)] {
    timer.reset();
    runs += *held;
  });
  RunFor(3ms);
  EXPECT_EQ(runs, 7);
}

TEST_P(EventLoopContract, ATimerMayBeReplacedInsideItsOwnCallback) {
  int runs = 0;
  TimerPtr timer;
  std::function<void()> tick = [&] {
    if (++runs < 5) timer = loop().After(100us, tick);
  };
  timer = loop().After(100us, tick);
  RunUntil([&] { return runs == 5; });
}

TEST_P(EventLoopContract, AnEarlierTimerMadeLaterRunsFirst) {
  std::vector<int> ran;
  const TimerPtr late = loop().After(5ms, [&] { ran.push_back(2); });
  TimerPtr early;
  loop().Post([&] { early = loop().After(1ms, [&] { ran.push_back(1); }); });
  RunUntil([&] { return ran.size() == 2; });
  EXPECT_EQ(ran, (std::vector<int>{1, 2}));
}

TEST_P(EventLoopContract, PostsThatNeverEndDoNotStarveTimers) {
  bool rung = false;
  std::function<void()> again = [&] {
    if (!rung) loop().Post(again);
  };
  const TimerPtr timer = loop().After(1ms, [&] { rung = true; });
  loop().Post(again);
  RunUntil([&] { return rung; });
}

TEST_P(EventLoopContract, TimersThatOwnTimersMayBeLeftBehind) {
  auto inner = std::make_shared<TimerPtr>(loop().After(1h, [] {}));
  auto outer = std::make_shared<TimerPtr>();
  *outer = loop().After(1h, [inner, outer] {});
  loop().Post([inner] {});
}

}  // namespace espalier
