#include "controller/paths/verification_schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <utility>

namespace espalier::controller {
namespace {

using namespace std::chrono_literals;
using fabric::NodeId;

constexpr TimePoint kScheduleStart{1h};
constexpr VerificationPace kPace{.within = 5min, .interval = 1s, .probes_per_second = 64};

// Ports of `leaves` leaves, each with as many, which are all in use.
struct Ports {
  void Note(VerificationSchedule& schedule, TimePoint now) const {
    for (int leaf = 0; leaf < leaves; ++leaf) {
      for (int i = 0; i < of_leaf; ++i) {
        schedule.Note(Port(leaf, i), {NodeId(leaf), NodeId((leaf + 1 + i % 3) % 100), 1}, kPace,
                      now);
      }
    }
  }
  static UsedPort Port(int leaf, int i) {
    return {{.source = NodeId(1'000 + leaf), .destination = NodeId(2'000)},
            static_cast<std::uint16_t>(0xC000 + i)};
  }
  int leaves = 1;
  int of_leaf = 1;
};

struct Outcome {
  Duration oldest{};
  std::size_t asked = 0;
  std::size_t most_in_a_second = 0;  // of all leaves
};

// Runs the schedule for a while. All ports are answered but each `silent`-th one.
Outcome Play(VerificationSchedule& schedule, const Ports& ports, TimePoint from, Duration span,
             int silent = 0) {
  Outcome outcome;
  std::size_t in_second = 0;
  for (Duration passed{}; passed < span; passed += 100ms) {
    const TimePoint now = from + passed;
    if (passed % 10s == 0ns) {
      schedule.EndRound();
      ports.Note(schedule, now);
    }
    if (passed % 1s == 0ns) in_second = 0;
    for (const UsedPort& port : schedule.Take(kPace, now)) {
      ++outcome.asked;
      outcome.most_in_a_second = std::max(outcome.most_in_a_second, ++in_second);
      if (silent == 0 || port.port % silent != 0) schedule.HandleAnswer(port, kPace, now);
    }
    outcome.oldest = std::max(outcome.oldest, schedule.OldestAge(now));
  }
  return outcome;
}

TEST(VerificationScheduleTest, VerifiesEveryPortInTime) {
#ifdef ESPALIER_SANITIZED
  constexpr int kMost = 4'096;  // takes twenty times as long
#else
  constexpr int kMost = 16'384;
#endif
  for (const Ports ports : {Ports{8, 256}, Ports{1, kMost}, Ports{1, 1}, Ports{16, 3}}) {
    VerificationSchedule schedule;
    const Outcome outcome = Play(schedule, ports, kScheduleStart, 20min);
    EXPECT_LT(outcome.oldest, kPace.within) << ports.leaves << " " << ports.of_leaf;
    EXPECT_LE(outcome.most_in_a_second, 128U * static_cast<std::size_t>(ports.leaves));
  }
}

// After the first round, the probes are spread evenly in time.
TEST(VerificationScheduleTest, SpreadsProbes) {
  VerificationSchedule schedule;
  const Ports ports{8, 512};
  Play(schedule, ports, kScheduleStart, 10min);
  const Outcome outcome = Play(schedule, ports, kScheduleStart + 10min, 15min);
  EXPECT_LE(outcome.asked, 5U * 8 * 512);
  EXPECT_LE(outcome.most_in_a_second, 64U);
}

// Few ports are still verified once in each interval in turn.
TEST(VerificationScheduleTest, VerifiesOnePortInEachInterval) {
  VerificationSchedule schedule;
  const Outcome outcome = Play(schedule, {2, 2}, kScheduleStart, 1min);
  EXPECT_GE(outcome.asked, 55U);
  EXPECT_LE(outcome.asked, 65U);
}

// Ports that nobody answers for are asked again, but do not delay the others.
TEST(VerificationScheduleTest, SilentPortsDoNotDelayOthers) {
  VerificationSchedule schedule;
  const Ports ports{1, 4'096};
  std::map<UsedPort, TimePoint> answered;
  Duration longest{};  // between two answers for a port
  std::size_t asked = 0;
  for (TimePoint now = kScheduleStart; now < kScheduleStart + 20min; now += 100ms) {
    ports.Note(schedule, now);
    for (const UsedPort& port : schedule.Take(kPace, now)) {
      ++asked;
      if (port.port % 2 == 0) continue;
      schedule.HandleAnswer(port, kPace, now);
      const auto [last, is_first] = answered.try_emplace(port, kScheduleStart);
      longest = std::max(longest, now - std::exchange(last->second, now));
    }
  }
  EXPECT_EQ(answered.size(), 2'048U);
  EXPECT_LT(longest, kPace.within);
  EXPECT_LE(asked, 64U * 1'200 + 64);  // the budget
}

TEST(VerificationScheduleTest, HurriesThePortsOfAScope) {
  VerificationSchedule schedule;
  const Ports ports{3, 32};
  Play(schedule, ports, kScheduleStart, 10min);
  const TimePoint now = kScheduleStart + 10min;
  schedule.Hurry({.sources = {NodeId(1)}}, now);
  const auto taken = schedule.Take(kPace, now);
  const auto own = std::ranges::count(taken, NodeId(1'001),
                                      [](const UsedPort& port) { return port.key.source; });
  EXPECT_EQ(own, 32);
  EXPECT_LE(taken.size(), 34U);
}

TEST(VerificationScheduleTest, ForgetsPortsThatAreNoLongerInUse) {
  VerificationSchedule schedule;
  Play(schedule, {2, 8}, kScheduleStart, 1min);
  EXPECT_EQ(schedule.size(), 16U);
  schedule.EndRound();
  Ports{1, 3}.Note(schedule, kScheduleStart + 1min);
  schedule.EndRound();
  EXPECT_EQ(schedule.size(), 3U);
  schedule.EndRound();
  EXPECT_EQ(schedule.size(), 0U);
  EXPECT_TRUE(schedule.Take(kPace, kScheduleStart + 1h).empty());
}

}  // namespace
}  // namespace espalier::controller
