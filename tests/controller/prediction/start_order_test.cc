#include "controller/prediction/start_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <utility>
#include <vector>

#include "tests/seeds.h"

namespace espalier::controller {
namespace {

using namespace std::chrono_literals;

constexpr Duration kLeastApart = 20ms;

// A start of members that begin at these times, told late by up to `late`.
void Start(StartOrder& order, const std::vector<Duration>& begins, Duration late,
           std::mt19937& random) {
  std::vector<std::pair<Duration, std::uint32_t>> told;
  for (std::uint32_t i = 0; i < begins.size(); ++i) {
    const auto up_to = static_cast<std::uint32_t>(late / 1us + 1);
    told.emplace_back(begins[i] + std::chrono::microseconds(random() % up_to), i);
  }
  std::sort(told.begin(), told.end());
  for (const auto& [time, member] : told) order.Take(member, time - told.front().first);
  order.EndStart();
}

TEST(StartOrder, PartsMembersOfWhichSomeAlwaysStartAfterTheOthers) {
  std::vector<Duration> begins(12, 0ms);
  for (std::size_t i = 8; i < begins.size(); ++i) begins[i] = 70ms;
  int missed = 0;
  const std::vector<std::uint64_t> seeds = SeedsToTry(1, 200);
  for (const std::uint64_t seed : seeds) {
    SCOPED_TRACE(seed);
    std::mt19937 random(static_cast<std::uint32_t>(seed));
    StartOrder order(kLeastApart);
    std::uint32_t starts = 0;
    for (; starts + 1 < StartOrder::kStartsSeen && !order.AreParted(); ++starts) {
      Start(order, begins, 60ms, random);
    }
    if (!order.AreParted()) {
      ++missed;
      continue;
    }
    for (std::size_t i = 0; i < begins.size(); ++i) EXPECT_EQ(order.IsLater(i), i >= 8);
    EXPECT_GT(order.UsualTimeOf(11), order.UsualTimeOf(0));
    order.Stop();
    EXPECT_FALSE(order.AreParted());
  }
  EXPECT_LE(missed, static_cast<int>(seeds.size() / 10 + 1));
}

TEST(StartOrder, LateWordOfOnePhaseIsNoOrder) {
  int parted = 0;
  for (const std::uint64_t seed : SeedsToTry(1, 1'000)) {
    std::mt19937 random(static_cast<std::uint32_t>(seed));
    StartOrder order(kLeastApart);
    for (std::uint32_t i = 0; i < 2 * StartOrder::kStartsSeen; ++i) {
      Start(order, std::vector<Duration>(8, 0ms), 60ms, random);
      parted += order.AreParted() ? 1 : 0;
    }
  }
  EXPECT_LE(parted, 5);
}

TEST(StartOrder, TellsNothingOfStartsThatAreCloseOrOfOnlySome) {
  std::mt19937 random(1);
  StartOrder close(kLeastApart);
  StartOrder some(kLeastApart);
  for (std::uint32_t i = 0; i < 2 * StartOrder::kStartsSeen; ++i) {
    Start(close, {0ms, 0ms, 19ms}, 0ms, random);
    EXPECT_FALSE(close.AreParted());
    some.Take(0, 0ms);
    if (i % 2 == 0) some.Take(1, 50ms);
    some.EndStart();
    EXPECT_FALSE(some.AreParted());
  }
}

}  // namespace
}  // namespace espalier::controller
