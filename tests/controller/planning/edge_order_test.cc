#include "controller/planning/edge_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <vector>

#include "tests/controller/prediction/phase_schedule.h"
#include "tests/seeds.h"

namespace espalier::controller {
namespace {

using namespace std::chrono_literals;
using Keys = std::vector<std::uint64_t>;

constexpr TimePoint kEpoch{1h};

class EdgeOrderTest : public testing::Test {
 protected:
  // Each returns the flows whose edges are due then.
  Keys Add(std::uint64_t key, Duration at, Duration now, bool is_busy = true) {
    order_.Add({.key = MemberKey(key), .is_busy = is_busy, .at = kEpoch + at}, kEpoch + now);
    return TakeDue(now);
  }
  Keys TakeDue(Duration now) {
    Keys keys;
    for (const EdgeOrder::Edge& edge : order_.TakeDue(kEpoch + now)) {
      keys.push_back(edge.key.value());
    }
    return keys;
  }

  EdgeOrder order_;
};

TEST_F(EdgeOrderTest, EdgesThatComeSoonDoNotWait) {
  EXPECT_EQ(Add(1, 0ms, 2ms), Keys{1});
  EXPECT_EQ(Add(2, 3ms, 4ms), Keys{2});
  EXPECT_EQ(Add(3, 1ms, 11ms), Keys{3});  // in another order, by less than kNegligible
  EXPECT_EQ(order_.CompleteUntil(kEpoch + 1s), kEpoch + 1s);
}

TEST_F(EdgeOrderTest, EdgesThatAreAllEquallyLateDoNotWaitForEachOther) {
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(Add(1, i * 50ms, i * 50ms + 5s), Keys{1});
  }
  EXPECT_EQ(order_.CompleteUntil(kEpoch + 5'451ms), kEpoch + 451ms);
}

TEST_F(EdgeOrderTest, EdgesWaitAsLongAsAnyOfTheLastSecondsCameAfterALaterOne) {
  EXPECT_EQ(Add(1, 100ms, 102ms), Keys{1});
  EXPECT_EQ(Add(2, 20ms, 105ms), Keys{});  // too late: it counts as lost
  EXPECT_EQ(order_.waiting(), 0U);
  EXPECT_EQ(Add(3, 150ms, 152ms), Keys{});
  EXPECT_EQ(Add(4, 140ms, 160ms), Keys{});
  // No other edge comes, so they wait as long as edges were on their way.
  EXPECT_EQ(TakeDue(228ms), Keys{});
  EXPECT_EQ(TakeDue(400ms), (Keys{4, 3}));  // by their times
  EXPECT_EQ(Add(5, 500ms, 501ms), Keys{});
  EXPECT_EQ(Add(6, 590ms, 591ms), Keys{5});
  // After two windows without disorder, nothing waits.
  Add(7, 12s, 12s);
  EXPECT_EQ(Add(8, 23s, 23s), (Keys{7, 8}));
  EXPECT_EQ(order_.waiting(), 0U);
}

TEST_F(EdgeOrderTest, IdleEdgesThatAreReportedLateOnPurposeKeepNothingWaiting) {
  Add(1, 50ms, 51ms);
  EXPECT_EQ(Add(2, 5ms, 52ms, false), Keys{2});
  EXPECT_EQ(order_.CompleteUntil(kEpoch + 52ms), kEpoch + 52ms);
}

TEST_F(EdgeOrderTest, EdgesOfAFlowStayInOrderAlsoAtOneTime) {
  Add(9, 200ms, 201ms);
  Add(8, 0ms, 202ms);
  Add(1, 300ms, 310ms, false);
  Add(1, 300ms, 310ms);
  Add(1, 301ms, 311ms, false);
  std::vector<bool> busy;
  for (const auto& edge : order_.TakeDue(kEpoch + 1s)) {
    if (edge.key == MemberKey(1)) busy.push_back(edge.is_busy);
  }
  EXPECT_EQ(busy, (std::vector{false, true, false}));
}

TEST_F(EdgeOrderTest, NoHostKeepsOthersWaitingForLongerThanTheBounds) {
  Add(1, 1h, 1h);
  EXPECT_EQ(Add(2, 0ms, 1h), Keys{});
  EXPECT_EQ(Add(3, 1h + 1ms, 1h + 1ms), Keys{});
  EXPECT_EQ(Add(4, 1h + 2'010ms, 1h + 2'010ms), Keys{3});
  EXPECT_EQ(TakeDue(1h + 2s + EdgeOrder::kLongestWay + 20ms), Keys{4});
}

TEST_F(EdgeOrderTest, HoldsABoundedNumberOfEdges) {
  Add(1, 1s, 1s);
  std::size_t taken = Add(1, 0ms, 1s).size();
  for (std::uint64_t i = 0; i < 2 * EdgeOrder::kMostWaiting; ++i) {
    taken += Add(i, 1s, 1s).size();
    ASSERT_LE(order_.waiting(), EdgeOrder::kMostWaiting);
  }
  EXPECT_GE(taken + order_.waiting(), 2 * EdgeOrder::kMostWaiting);
}

TEST_F(EdgeOrderTest, ReturnsEachEdgeOnceAndInOrderIfNoneIsLaterThanBefore) {
  for (const std::uint64_t seed : SeedsToTry(1, 20)) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937 random(static_cast<std::uint32_t>(seed));
    const auto most_us = static_cast<std::uint32_t>(20'000 + random() % 1'000'000);
    std::multimap<TimePoint, TimePoint> arrivals;  // and the times of their edges
    for (int i = 0; i < 5'000; ++i) {
      const TimePoint at = kEpoch + i * 1ms;
      arrivals.emplace(at + std::chrono::microseconds(random() % most_us), at);
    }
    EdgeOrder order;
    std::vector<TimePoint> taken;
    const auto take = [&](TimePoint now) {
      for (const EdgeOrder::Edge& edge : order.TakeDue(now)) taken.push_back(edge.at);
    };
    // The second shows how late an edge may come, and is lost by it.
    for (const std::uint32_t late_us : {0U, most_us}) {
      order.Add({.is_busy = true, .at = kEpoch - 2s - std::chrono::microseconds(late_us)},
                kEpoch - 2s);
      take(kEpoch - 2s);
    }
    for (const auto& [now, at] : arrivals) {
      order.Add({.is_busy = true, .at = at}, std::max(now, at));
      take(std::max(now, at));
    }
    take(kEpoch + 1min);
    ASSERT_EQ(taken.size(), arrivals.size() + 1);
    EXPECT_TRUE(std::ranges::is_sorted(taken));
  }
}

// How many of a learner's looks at its phases are wrong. A report of some flows may wait for longer
// than a phase lasts, and for most of a period.
int WrongLooks(bool orders, std::uint64_t seed) {
  constexpr std::uint64_t kFlows = 64;
  struct Arrival {
    TimePoint now;
    EdgePlayer::Edge edge;
  };
  std::mt19937 random(static_cast<std::uint32_t>(seed));
  std::vector<Arrival> arrivals;
  for (std::uint64_t host = 0; host < kFlows / 4; ++host) {
    TimePoint earliest{};
    for (int step = 0; step < 400; ++step) {  // four phases of 25 ms in each 200 ms
      const auto late = std::chrono::microseconds(random() % (random() % 8 == 0 ? 170'000 : 2'000));
      const TimePoint start = kEpoch + step * 50ms + std::chrono::microseconds(random() % 6'000);
      earliest = std::max(earliest, start + late);
      const CycleLearner::Key key(4 * host + static_cast<std::uint64_t>(step % 4));
      arrivals.push_back({earliest, {start, true, key}});
      earliest = std::max(earliest, start + 25ms + late);
      arrivals.push_back({earliest, {start + 25ms, false, key}});
    }
  }
  std::ranges::stable_sort(arrivals, {}, &Arrival::now);
  CycleLearner learner({.max_members = kFlows});
  EdgeOrder order;
  int wrong = 0;
  TimePoint next_look = kEpoch + 10s;
  for (const Arrival& arrival : arrivals) {
    order.Add({.key = arrival.edge.key,
               .is_busy = arrival.edge.is_start,
               .at = orders ? arrival.edge.time : arrival.now},
              arrival.now);
    for (const EdgeOrder::Edge& edge : order.TakeDue(arrival.now)) {
      if (edge.is_busy) {
        learner.HandleStart(edge.key, 1, edge.at);
      } else {
        learner.HandleEnd(edge.key, edge.at);
      }
    }
    if (arrival.now < next_look) continue;
    next_look += 500ms;
    const auto phases = MembersOf(learner.Phases());
    const bool is_right = phases.size() == 4 && std::ranges::all_of(phases, [](const auto& phase) {
                            return phase.size() == kFlows / 4;
                          });
    wrong += is_right ? 0 : 1;
  }
  return wrong;
}

TEST(EdgeOrder, PhasesAreLearnedFromTheTimesOfEdgesWhateverTheOrderOfReports) {
  for (const std::uint64_t seed : SeedsToTry(1, 20)) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    EXPECT_EQ(WrongLooks(true, seed), 0);
    EXPECT_GT(WrongLooks(false, seed), 0) << "by the times of their arrival they are not";
  }
}

}  // namespace
}  // namespace espalier::controller
