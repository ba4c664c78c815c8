#include "agent/flows/edge_filter.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <random>

#include "tests/seeds.h"

namespace espalier::agent {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr TimePoint kStart{std::chrono::hours(1)};

// A flow that is idle at first, whose source is looked at every 2 ms.
class Flow {
 public:
  void Toggle(Duration at) {
    LookUntil(at);
    ToggleUnseen(at);
  }
  void ToggleUnseen(Duration at) {
    source_.between = kStart + at - source_.last;
    source_.last = kStart + at;
    ++source_.count;
  }
  void Look(Duration at) { filter_.Update(options_, kStart + at, source_); }
  void LookUntil(Duration end) {
    for (; next_look_ <= end; next_look_ += milliseconds(2)) Look(next_look_);
  }
  const Activity& activity() const { return filter_.activity(); }
  Duration LastEdge() const { return activity().last_edge - kStart; }
  SourceEdges& source() { return source_; }

 private:
  const EdgeFilterOptions options_{};
  SourceEdges source_{.count = 2, .last = kStart};
  EdgeFilter filter_{options_, kStart, source_};
  Duration next_look_{};
};

TEST(EdgeFilter, BusyEdgeIsToldAtTheNextLookWithItsTime) {
  Flow flow;
  EXPECT_EQ(flow.activity().edges, 2U);
  flow.Toggle(microseconds(50'100));
  flow.LookUntil(milliseconds(52));
  EXPECT_EQ(flow.activity().edges, 3U);
  EXPECT_EQ(flow.LastEdge(), microseconds(50'100));
}

TEST(EdgeFilter, IdleEdgeIsToldLaterWithTheTimeWhenTheFlowBecameIdle) {
  Flow flow;
  flow.Toggle(milliseconds(50));
  flow.LookUntil(milliseconds(60));
  flow.Toggle(microseconds(60'300));
  flow.LookUntil(milliseconds(70));
  EXPECT_EQ(flow.activity().edges, 3U);
  flow.LookUntil(milliseconds(72));
  EXPECT_EQ(flow.activity().edges, 4U);
  EXPECT_EQ(flow.LastEdge(), microseconds(60'300));
}

TEST(EdgeFilter, ShortPausesArePartOfTheBusyPhase) {
  Flow flow;
  for (int i = 0; i < 100; ++i) {
    flow.Toggle(milliseconds(20 * i));
    flow.LookUntil(milliseconds(20 * i + 11));
    flow.Toggle(milliseconds(20 * i + 11));
    flow.LookUntil(milliseconds(20 * i + 19));
  }
  EXPECT_EQ(flow.activity().edges, 3U);
  EXPECT_EQ(flow.LastEdge(), Duration::zero());
}

TEST(EdgeFilter, BurstBetweenTwoLooksIsTold) {
  Flow flow;
  flow.Toggle(microseconds(50'100));
  flow.Toggle(microseconds(50'400));
  flow.LookUntil(milliseconds(52));
  EXPECT_EQ(flow.activity().edges, 3U);
  EXPECT_EQ(flow.LastEdge(), microseconds(50'100));
  flow.LookUntil(milliseconds(62));
  EXPECT_EQ(flow.activity().edges, 4U);
  EXPECT_EQ(flow.LastEdge(), microseconds(50'400));
}

TEST(EdgeFilter, PauseBetweenTwoLooksIsTold) {
  Flow flow;
  flow.Toggle(milliseconds(10));
  flow.LookUntil(milliseconds(12));
  flow.ToggleUnseen(milliseconds(20));  // the agent has no processor
  flow.ToggleUnseen(milliseconds(40));
  flow.Look(milliseconds(50));
  EXPECT_EQ(flow.activity().edges, 5U);
  EXPECT_EQ(flow.LastEdge(), milliseconds(40));
}

TEST(EdgeFilter, FlowThatChangesTooOftenIsToldAsADutyCycleUntilItCalmsDown) {
  Flow flow;
  for (int i = 0; i < 200; ++i) {  // 5 ms of every 20 ms, 100 edges a second
    flow.Toggle(milliseconds(20 * i));
    flow.LookUntil(milliseconds(20 * i + 5));
    flow.Toggle(milliseconds(20 * i + 5));
    flow.LookUntil(milliseconds(20 * i + 19));
  }
  EXPECT_NEAR(flow.activity().duty_permille, 250, 15);
  EXPECT_EQ(flow.activity().edges % 2, 1U);
  EXPECT_LE(flow.activity().edges, 24U);
  const std::uint32_t edges = flow.activity().edges;
  flow.LookUntil(seconds(7));
  EXPECT_EQ(flow.activity().duty_permille, 0);
  EXPECT_EQ(flow.activity().edges, edges + 1);
  EXPECT_EQ(flow.LastEdge(), milliseconds(3'985));
}

TEST(EdgeFilter, FlowThatIsBusyAfterItHasCalmedDownHasTheEdgeOfThatPhase) {
  Flow flow;
  for (int i = 0; i < 100; ++i) {
    flow.Toggle(milliseconds(20 * i));
    flow.LookUntil(milliseconds(20 * i + 5));
    flow.Toggle(milliseconds(20 * i + 5));
    flow.LookUntil(milliseconds(20 * i + 19));
  }
  ASSERT_NE(flow.activity().duty_permille, 0);
  flow.Toggle(milliseconds(2'100));
  flow.LookUntil(seconds(6));
  EXPECT_EQ(flow.activity().duty_permille, 0);
  EXPECT_EQ(flow.activity().edges % 2, 1U);
  EXPECT_EQ(flow.LastEdge(), milliseconds(2'100));
}

TEST(EdgeFilter, FlowThatToggles100000TimesASecondIsOneBusyPhase) {
  Flow flow;
  for (int i = 0; i < 200'000; ++i) {
    flow.Toggle(microseconds(10 * i));
    flow.LookUntil(microseconds(10 * i));
  }
  EXPECT_EQ(flow.activity().edges, 3U);
  EXPECT_EQ(flow.activity().duty_permille, 0);
}

TEST(EdgeFilter, CountOfEdgesSkipsZero) {
  EdgeFilterOptions options;
  SourceEdges source{.count = std::numeric_limits<std::uint32_t>::max(), .last = kStart};
  EdgeFilter filter(options, kStart, source);
  EXPECT_EQ(filter.activity().edges, 1U);
  source.count += 1;  // a program that claims this is taken as idle
  filter.Update(options, kStart + milliseconds(100), source);
  EXPECT_EQ(filter.activity().edges, 2U);
}

// Whatever a program claims, and however the clock jumps: bounded edges, times in order, and the
// truth once the program tells it.
TEST(EdgeFilter, StrangeClaimsAndClocksAreSurvived) {
  const EdgeFilterOptions options;
  for (const std::uint64_t seed : SeedsToTry(1, 200)) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const auto number = [&](std::int64_t from, std::int64_t to) {
      return std::uniform_int_distribution<std::int64_t>(from, to)(random);
    };
    SourceEdges source{.count = 1, .last = kStart};
    EdgeFilter filter(options, kStart, source);
    TimePoint now = kStart;
    TimePoint latest = kStart;
    std::uint32_t seen = filter.activity().edges;
    std::uint64_t edges = 0;
    for (int look = 0; look < 3'000; ++look) {
      const std::int64_t kind = number(0, 99);
      now += kind == 0   ? Duration(number(-2'000'000'000, 2'000'000'000))
             : kind == 1 ? Duration::zero()
                         : Duration(milliseconds(2));
      latest = std::max(latest, now);
      if (number(0, 3) == 0) ++source.count;
      if (number(0, 9) == 0) source.count = static_cast<std::uint32_t>(number(1, 0xffff'ffff));
      source.last = TimePoint(Duration(
          number(0, 9) == 0 ? number(0, std::numeric_limits<std::int64_t>::max())
                            : std::max<std::int64_t>(0, now.time_since_epoch().count() -
                                                            number(-5'000'000, 30'000'000))));
      source.between = Duration(number(-1'000, number(0, 1) == 0 ? 20'000'000 : 1'000'000'000'000));
      const TimePoint before = filter.activity().last_edge;
      filter.Update(options, now, source);
      ASSERT_GE(filter.activity().last_edge, before);
      ASSERT_LE(filter.activity().last_edge, latest);
      ASSERT_LE(filter.activity().duty_permille, 1'000);
      ASSERT_NE(filter.activity().edges, 0U);
      ASSERT_TRUE(filter.activity().duty_permille == 0 || filter.activity().edges % 2 == 1);
      edges += filter.activity().edges - seen;
      seen = filter.activity().edges;
    }
    const double windows = SecondsOf(latest - kStart) + 1;
    EXPECT_LE(static_cast<double>(edges), 23 * windows);
    source.count = seed % 2 == 0 ? 8 : 9;
    source.last = latest;
    for (int look = 0; look < 2'000; ++look) {
      filter.Update(options, latest += milliseconds(2), source);
    }
    EXPECT_EQ(filter.activity().duty_permille, 0);
    EXPECT_EQ(filter.activity().edges % 2, source.count % 2);
  }
}

}  // namespace
}  // namespace espalier::agent
