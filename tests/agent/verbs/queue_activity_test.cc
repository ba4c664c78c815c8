#include "agent/verbs/queue_activity.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

namespace espalier::shim {
namespace {

constexpr std::uint64_t kEndless = ~std::uint64_t{0};
constexpr SendRequest kSignalled = {.bytes = 100, .signalled = true};
constexpr SendRequest kUnsignalled = {.bytes = 100, .signalled = false};

void CompleteAt(TrafficCount& count, std::uint64_t now) {
  count.Complete([now] { return now; });
}

TEST(QueueActivity, QueueWithoutRequestsIsIdleFromTheStart) {
  TrafficCount count(16);
  QueueActivity activity(5);
  activity.Update(count, 1'000'000, 10);
  EXPECT_EQ(activity.edges(), 2U);
  EXPECT_EQ(activity.last_edge(), 5U);
}

TEST(QueueActivity, BusyEdgeHasTheTimeOfThePost) {
  TrafficCount count(16);
  QueueActivity activity(ReadTicks());
  const std::uint64_t before = ReadTicks();
  count.Post(kSignalled);
  const std::uint64_t after = ReadTicks();
  count.Post(kSignalled);
  activity.Update(count, after + 1'000'000, kEndless);
  EXPECT_EQ(activity.edges(), 3U);
  EXPECT_GE(activity.last_edge(), before);
  EXPECT_LE(activity.last_edge(), after);
}

TEST(QueueActivity, IdleEdgeHasTheTimeOfTheLastCompletion) {
  TrafficCount count(16);
  QueueActivity activity(0);
  count.Post(kSignalled);
  const std::uint64_t start = ReadTicks();
  activity.Update(count, start, 10);
  count.Post(kSignalled);
  CompleteAt(count, start + 20);
  activity.Update(count, start + 100, 10);
  EXPECT_EQ(activity.edges(), 3U);
  CompleteAt(count, start + 120);
  activity.Update(count, start + 125, 10);
  EXPECT_EQ(activity.edges(), 3U);
  activity.Update(count, start + 130, 10);
  EXPECT_EQ(activity.edges(), 4U);
  EXPECT_EQ(activity.last_edge(), start + 120);
}

TEST(QueueActivity, ShortPausesDoNotCount) {
  TrafficCount count(16);
  QueueActivity activity(0);
  std::uint64_t now = ReadTicks();
  for (int i = 0; i < 100'000; ++i) {
    count.Post(kSignalled);
    CompleteAt(count, now);
    activity.Update(count, now += 5, 10);
  }
  EXPECT_EQ(activity.edges(), 3U);
}

TEST(QueueActivity, BurstBetweenTwoUpdatesIsTwoEdges) {
  TrafficCount count(16);
  QueueActivity activity(0);
  count.Post(kSignalled);
  const std::uint64_t end = ReadTicks();
  CompleteAt(count, end);
  activity.Update(count, end + 1'000'000, 10);
  EXPECT_EQ(activity.edges(), 4U);
  EXPECT_EQ(activity.last_edge(), end);
  EXPECT_LE(activity.last_edge() - activity.between(), end);
}

TEST(QueueActivity, RequestsWithoutCompletionsAtTheEndDoNotKeepAQueueBusy) {
  TrafficCount count(16);
  QueueActivity activity(0);
  count.Post(kSignalled);
  const std::uint64_t start = ReadTicks();
  CompleteAt(count, start);
  count.Post(kUnsignalled);
  // How long it drains depends on the time that the first request took, which is real.
  std::uint64_t now = start + 50;
  for (int i = 0; i < 300 && activity.edges() != 4; ++i) activity.Update(count, now += 100, 100);
  EXPECT_EQ(activity.edges(), 4U);
  EXPECT_GE(activity.last_edge(), start);
  EXPECT_LE(activity.last_edge(), now);
  count.Post(kUnsignalled);
  activity.Update(count, std::max(now, ReadTicks()) + 1, 100);
  EXPECT_EQ(activity.edges(), 5U);
}

// A queue that completes 10 bytes a tick gets 10,000 bytes without a completion at its end: these
// are under way for 1,000 ticks, which the program's completions do not show.
TEST(QueueActivity, RequestsWithoutCompletionsCountUntilTheQueueHasDrained) {
  TrafficCount count(256);
  QueueActivity activity(0);
  count.Post(kSignalled);
  const std::uint64_t start = ReadTicks();
  std::uint64_t now = start;
  activity.Update(count, now, 40);
  for (int i = 0; i < 100; ++i) {
    count.Post(kSignalled);
    CompleteAt(count, now += 10);
    activity.Update(count, now, 40);
  }
  CompleteAt(count, now += 10);
  for (int i = 0; i < 100; ++i) count.Post(kUnsignalled);
  const std::uint64_t posted = now;
  for (; now < posted + 900; now += 10) activity.Update(count, now, 40);
  EXPECT_EQ(activity.edges(), 3U);  // still busy
  for (; now < posted + 1'500; now += 10) activity.Update(count, now, 40);
  EXPECT_EQ(activity.edges(), 4U);
  EXPECT_GE(activity.last_edge(), posted + 900);
  EXPECT_LE(activity.last_edge(), posted + 1'100);
}

TEST(QueueActivity, NoRateKeepsAQueueBusyForEver) {
  TrafficCount count(256);
  QueueActivity activity(0);
  count.Post({.bytes = 1, .signalled = true});
  std::uint64_t now = ReadTicks();
  activity.Update(count, now, 40);
  CompleteAt(count, now += 1'000'000);  // a byte in a million ticks
  activity.Update(count, now, 40);
  activity.Update(count, now += 40, 40);
  EXPECT_EQ(activity.edges(), 4U);
  count.Post({.bytes = 1'000'000, .signalled = false});
  const std::uint64_t posted = ReadTicks();
  now = std::max(now, posted);
  activity.Update(count, now, 40);
  EXPECT_EQ(activity.edges(), 5U);
  activity.Update(count, now + 258 * 40, 40);
  EXPECT_EQ(activity.edges(), 6U);
}

TEST(QueueActivity, FailedQueueIsIdle) {
  TrafficCount count(16);
  QueueActivity activity(0);
  count.Post(kSignalled);
  std::uint64_t now = ReadTicks();
  activity.Update(count, now, 10);
  count.Fail();
  activity.Update(count, now + 1'000, 10);
  EXPECT_EQ(activity.edges(), 4U);
}

TEST(QueueActivity, CountersThatRunBackwardsAreSurvived) {
  TrafficCount count(16);
  QueueActivity activity(kEndless / 2);
  count.Post(kSignalled);
  activity.Update(count, 100, 10);
  EXPECT_EQ(activity.edges(), 3U);
  EXPECT_EQ(activity.last_edge(), kEndless / 2);
  CompleteAt(count, kEndless);
  activity.Update(count, kEndless / 2 + 5, 10);
  EXPECT_EQ(activity.edges(), 3U);
  CompleteAt(count, kEndless);  // one too many: the program may still be posting
  activity.Update(count, kEndless / 2 + 500, 10);
  EXPECT_EQ(activity.edges(), 3U);
  count.Post(kSignalled);
  CompleteAt(count, kEndless / 2 + 20);
  count.Post(kSignalled);
  activity.Update(count, kEndless / 2 + 1'000, 10);
  EXPECT_EQ(activity.edges() % 2, 0U);
}

// Whatever the order of what threads do, the state is right when they rest.
TEST(QueueActivity, StateIsRightAfterThreadsHaveRaced) {
  constexpr int kBursts = 300;
  constexpr std::uint64_t kPause = 1'000;
  TrafficCount count(1 << 10);
  QueueActivity activity(ReadTicks());
  std::atomic<int> posted{0};
  std::atomic<int> completed{0};
  std::atomic<bool> done{false};
  std::thread poster([&] {
    for (int i = 0; i < kBursts; ++i) {
      count.Post(kSignalled);
      posted.fetch_add(1);
      while (completed.load() < posted.load()) std::this_thread::yield();
      for (int spin = i % 7 * 400; spin > 0; --spin) ReadTicks();
    }
    done = true;
  });
  std::thread completer([&] {
    while (!done) {
      if (completed.load() == posted.load()) continue;
      CompleteAt(count, ReadTicks());
      completed.fetch_add(1);
    }
  });
  while (!done) activity.Update(count, ReadTicks(), kPause);
  poster.join();
  completer.join();
  activity.Update(count, ReadTicks() + 2 * kPause, kPause);
  activity.Update(count, ReadTicks() + 4 * kPause, kPause);
  EXPECT_EQ(activity.edges() % 2, 0U);
  EXPECT_LE(activity.edges(), 2U + 2 * kBursts);
  const std::uint32_t edges = activity.edges();
  count.Post(kSignalled);
  activity.Update(count, ReadTicks() + 6 * kPause, kPause);
  EXPECT_EQ(activity.edges(), edges + 1);
}

TEST(TickClock, ConvertsTicksOfTheLastSeconds) {
  using Clock = TickClock::Clock;
  using std::chrono::microseconds;
  using std::chrono::milliseconds;
  TickClock clock;
  const Clock::time_point start{std::chrono::hours(5)};
  EXPECT_EQ(clock.TicksOf(milliseconds(4)), kEndless);
  for (int i = 0; i <= 2'000; ++i) {  // 3 ticks in a nanosecond
    clock.Set(start + milliseconds(2 * i), 1'000 + 6'000'000ULL * static_cast<unsigned>(i));
  }
  EXPECT_EQ(clock.TicksOf(milliseconds(4)), 12'000'000U);
  const Clock::time_point now = start + milliseconds(4'000);
  const std::uint64_t ticks = 1'000 + 12'000'000'000ULL;
  EXPECT_EQ(clock.TimeOf(ticks + 5), now);
  EXPECT_LE(std::chrono::abs(now - clock.TimeOf(ticks - 3'000'000) - milliseconds(1)),
            microseconds(1));
}

TEST(TickClock, FollowsACounterThatStartsAgain) {
  using std::chrono::milliseconds;
  TickClock clock;
  const TickClock::Clock::time_point start{std::chrono::hours(5)};
  clock.Set(start, 1'000'000'000);
  clock.Set(start + milliseconds(2), 1'002'000'000);
  clock.Set(start + milliseconds(4), 7);
  clock.Set(start + milliseconds(1'000), 996'000'007);
  clock.Set(start + milliseconds(2'000), 1'996'000'007);
  EXPECT_EQ(clock.TicksOf(milliseconds(4)), 4'000'000U);
  EXPECT_EQ(clock.TimeOf(1'995'000'007), start + milliseconds(1'999));
}

}  // namespace
}  // namespace espalier::shim
