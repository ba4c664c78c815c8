// Groups of flows of one job, found by who sends together on the same NICs.
#include "controller/rounds/sender_groups.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <set>
#include <vector>

namespace espalier::controller {
namespace {

using namespace std::chrono_literals;

constexpr TimePoint kStart{std::chrono::hours(1)};
constexpr int kSeeds = 20;

class Groups : public testing::Test {
 protected:
  // Flows that send together, and when.
  struct Pattern {
    int flows = 4;
    Duration burst = 400ms;
    Duration period = 1s;
    Duration first{};
    Duration later{};   // each flow than the one before, in every round
    Duration jitter{};  // at most, of each flow's beginning and end
    int steps = 1;      // of a burst, with pauses of half a step in all flows but the first
  };
  struct Event {
    TimePoint at;
    std::size_t flow = 0;
    bool begins = true;
  };

  // Opens the flows of the pattern on the same two NICs, and returns the number of the first.
  std::size_t Open(const Pattern& pattern) {
    const std::size_t first = flows_.size();
    for (int i = 0; i < pattern.flows; ++i) {
      flows_.emplace_back();
      groups_.Join(flows_.back(), std::vector<std::size_t>{1, 2});
    }
    return first;
  }
  // Adds the bursts of flows that Open has opened.
  void Schedule(const Pattern& pattern, std::size_t first, TimePoint from, TimePoint until) {
    std::uniform_real_distribution<double> jitter(-1, 1);
    const auto jittered = [&](TimePoint at) {
      return at + std::chrono::duration_cast<Duration>(pattern.jitter * jitter(random_));
    };
    for (TimePoint round = from + pattern.first; round < until; round += pattern.period) {
      for (int i = 0; i < pattern.flows; ++i) {
        const std::size_t flow = first + static_cast<std::size_t>(i);
        const int steps = i == 0 ? 1 : pattern.steps;
        const Duration step = pattern.burst / steps;
        for (int k = 0; k < steps; ++k) {
          const TimePoint begin = round + k * step + i * pattern.later;
          events_.push_back({jittered(begin), flow, true});
          events_.push_back({jittered(begin + (steps == 1 ? step : step / 2)), flow, false});
        }
      }
    }
  }
  void Play() {
    std::ranges::stable_sort(events_, {}, &Event::at);
    for (const Event& event : events_) {
      if (event.begins) {
        groups_.Begin(flows_[event.flow], event.at);
      } else {
        groups_.End(flows_[event.flow], event.at);
      }
    }
    events_.clear();
  }
  std::size_t Add(const Pattern& pattern, Duration duration = 60s) {
    const std::size_t first = Open(pattern);
    Schedule(pattern, first, kStart, kStart + duration);
    return first;
  }
  // The groups of the flows of a pattern.
  std::set<SenderGroups::Group> Of(const Pattern& pattern, std::size_t first) const {
    std::set<SenderGroups::Group> groups;
    for (int i = 0; i < pattern.flows; ++i) {
      groups.insert(groups_.GroupOf(flows_[first + static_cast<std::size_t>(i)]));
    }
    return groups;
  }
  void ExpectEachIsOneGroup(const std::vector<Pattern>& patterns) {
    std::vector<std::size_t> first;
    first.reserve(patterns.size());
    for (const Pattern& pattern : patterns) first.push_back(Add(pattern));
    Play();
    std::set<SenderGroups::Group> all;
    for (std::size_t i = 0; i < patterns.size(); ++i) {
      const auto groups = Of(patterns[i], first[i]);
      EXPECT_EQ(groups.size(), 1U) << "pattern " << i;
      EXPECT_FALSE(groups.contains(SenderGroups::kOutside)) << "pattern " << i;
      all.insert(groups.begin(), groups.end());
    }
    EXPECT_EQ(all.size(), patterns.size());
  }
  void Restart(int seed) {
    random_.seed(static_cast<unsigned>(seed));
    groups_ = {};
    flows_.clear();
  }

  std::mt19937 random_{1};
  SenderGroups groups_;
  std::deque<SenderGroups::Member> flows_;
  std::vector<Event> events_;
};

TEST_F(Groups, OnOneNicAreOneIfTheyAreInStep) {
  for (int seed = 0; seed < kSeeds; ++seed) {
    Restart(seed);
    ExpectEachIsOneGroup({{.flows = 16, .jitter = 20ms}});
  }
}

TEST_F(Groups, OfOneNicThatAreNotInStepAreToldApart) {
  for (int seed = 0; seed < kSeeds; ++seed) {
    SCOPED_TRACE(seed);
    Restart(seed);
    ExpectEachIsOneGroup({{.burst = 400ms, .period = 1'100ms, .jitter = 20ms},
                          {.burst = 430ms, .period = 1'300ms, .jitter = 20ms}});
    Restart(seed);
    std::vector<Pattern> six;
    for (int i = 0; i < 6; ++i) {
      six.push_back({.burst = 300ms + i * 30ms, .period = 1s + i * 170ms, .jitter = 10ms});
    }
    ExpectEachIsOneGroup(six);
  }
}

// As a tensor-parallel, a pipeline-parallel and a data-parallel group in one iteration.
TEST_F(Groups, OfOnePeriodAreToldApartIfTheyTakeTurns) {
  ExpectEachIsOneGroup({{.flows = 2, .burst = 60ms, .period = 250ms, .jitter = 5ms},
                        {.flows = 8, .burst = 400ms, .period = 1s, .first = 500ms, .jitter = 10ms},
                        {.flows = 4, .burst = 300ms, .period = 1s, .first = 0ms, .jitter = 10ms}});
}

TEST_F(Groups, OfAChainStayOneThoughEachFlowBeginsLater) {
  ExpectEachIsOneGroup({{.flows = 5, .burst = 800ms, .period = 2s, .later = 80ms, .jitter = 15ms}});
}

// Between two steps, the other hosts wait for the one whose path is slow.
TEST_F(Groups, OfARingWithASlowHostStayOne) {
  const Pattern ring{.flows = 4, .burst = 1'200ms, .period = 2s, .jitter = 10ms, .steps = 6};
  ExpectEachIsOneGroup({ring});
  Restart(1);
  ExpectEachIsOneGroup({ring, {.burst = 300ms, .period = 1'300ms, .jitter = 10ms}});
}

TEST_F(Groups, FlowThatOpensLaterIsOutsideUntilItHasFoundItsGroup) {
  const Pattern first{.burst = 400ms, .period = 1'100ms, .jitter = 10ms};
  const Pattern second{.burst = 430ms, .period = 1'300ms, .jitter = 10ms};
  const std::size_t a = Add(first);
  const std::size_t b = Add(second);
  Play();
  const std::size_t late = Open(second);
  EXPECT_EQ(groups_.GroupOf(flows_[late]), SenderGroups::kOutside);
  const TimePoint again = kStart + 1'100ms * 55;
  Schedule(first, a, again, again + 30s);
  Schedule(second, b, again, again + 30s);
  Schedule(second, late, again, again + 30s);
  Play();
  EXPECT_EQ(Of(second, late), Of(second, b));
  EXPECT_NE(Of(first, a), Of(second, b));
}

TEST_F(Groups, OfFlowsThatNeverAgreeAreSoManyAndNoMore) {
  constexpr std::size_t kFlows = SenderGroups::kMaxGroups + 8;
  std::uniform_int_distribution<int> milliseconds(60, 1'500);
  for (std::size_t i = 0; i < kFlows; ++i) {
    const std::size_t flow = Open({.flows = 1});
    for (TimePoint at = kStart; at < kStart + 120s;) {
      events_.push_back({at, flow, true});
      at += std::chrono::milliseconds(milliseconds(random_));
      events_.push_back({at, flow, false});
      at += std::chrono::milliseconds(milliseconds(random_));
    }
  }
  Play();
  std::map<SenderGroups::Group, int> flows;
  for (const SenderGroups::Member& flow : flows_) ++flows[groups_.GroupOf(flow)];
  flows.erase(SenderGroups::kOutside);
  EXPECT_LE(flows.size(), SenderGroups::kMaxGroups);
  EXPECT_LE(groups_.size(), SenderGroups::kMaxGroups + 8);
}

TEST_F(Groups, ThatWereToldApartByMistakeUniteInTime) {
  const Pattern two{.flows = 2, .jitter = 5ms};
  const std::size_t first = Open(two);
  // The second flow begins by itself for a while.
  Schedule({.flows = 1}, first, kStart, kStart + 20s);
  Schedule({.flows = 1, .period = 1'150ms}, first + 1, kStart, kStart + 20s);
  Play();
  EXPECT_EQ(Of(two, first).size(), 2U);
  Schedule(two, first, kStart + 30s, kStart + 30s + 20s);
  Play();
  EXPECT_EQ(Of(two, first).size(), 2U) << "20 rounds are too few";
  Schedule(two, first, kStart + 50s, kStart + 90s);
  Play();
  EXPECT_EQ(Of(two, first).size(), 1U);
}

TEST_F(Groups, ThatDriftPastEachOtherDoNotUnite) {
  const Pattern first{.burst = 400ms, .period = 1'000ms};
  const Pattern second{.burst = 400ms, .period = 1'010ms, .first = 500ms};
  const std::size_t a = Add(first, 300s);
  const std::size_t b = Add(second, 300s);
  Play();
  EXPECT_NE(Of(first, a), Of(second, b));
}

TEST_F(Groups, GroupWhoseLeaderClosesOrFallsSilentGetsAnother) {
  for (const bool closes : {true, false}) {
    Restart(1);
    const Pattern first{.burst = 400ms, .period = 1'100ms};
    const Pattern second{.burst = 430ms, .period = 1'300ms};
    const std::size_t a = Add(first);
    const std::size_t b = Add(second);
    Play();
    if (closes) groups_.Leave(flows_[a]);
    // All but the first flow of the first go on, in another rhythm.
    const Pattern rest{.flows = 3, .burst = 200ms, .period = 900ms};
    const TimePoint again = kStart + 70s;
    Schedule(rest, a + 1, again, again + 60s);
    Schedule(second, b, again, again + 60s);
    Play();
    EXPECT_EQ(Of(rest, a + 1).size(), 1U) << closes;
    EXPECT_NE(Of(rest, a + 1), Of(second, b)) << closes;
  }
}

TEST_F(Groups, PlaceOfAnEmptyGroupIsUsedAgain) {
  const Pattern first{.burst = 400ms, .period = 1'100ms};
  const std::size_t a = Add(first);
  for (int i = 0; i < 10; ++i) {
    const Pattern other{.flows = 1, .burst = 430ms, .period = 1'300ms};
    const std::size_t b = Open(other);
    const TimePoint from = kStart + i * 66s;
    Schedule(first, a, from, from + 60s);
    Schedule(other, b, from, from + 60s);
    Play();
    groups_.Leave(flows_[b]);
  }
  EXPECT_LE(groups_.size(), 3U);
}

TEST_F(Groups, OfNicsThatConnectLaterAreOne) {
  SenderGroups::Member left;
  SenderGroups::Member right;
  SenderGroups::Member both;
  EXPECT_TRUE(groups_.Join(left, std::vector<std::size_t>{1}).empty());
  EXPECT_TRUE(groups_.Join(right, std::vector<std::size_t>{2}).empty());
  EXPECT_NE(groups_.GroupOf(left), groups_.GroupOf(right));
  EXPECT_EQ(groups_.Join(both, std::vector<std::size_t>{1, 2}).size(), 1U);
  EXPECT_EQ(groups_.GroupOf(left), groups_.GroupOf(right));
  EXPECT_EQ(groups_.GroupOf(left), groups_.GroupOf(both));
}

}  // namespace
}  // namespace espalier::controller
