// Measures how far the forecast of a flow's end is off at 10, 50 and 90 % of a phase, on synthetic
// traces of programs that report more or less. Errors are relative to the phase's duration.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <random>
#include <vector>

#include "controller/prediction/end_estimator.h"
#include "tests/seeds.h"

namespace espalier::controller {
namespace {

using namespace std::chrono_literals;

constexpr TimePoint kBegin{1h};
constexpr FlowSlot kFlow(0);
constexpr double kUsualSeconds = 0.4;
constexpr double kUsualBytes = 2.5e9;  // at 50 Gb/s

struct Program {
  bool tells_remaining = false;  // a collective library, or a program that declares bytes
  double portion = kUsualBytes;  // what it posts at once
  double jitter = 0.05;          // of bytes and rate, from phase to phase
  double slowed = 0;             // share of phases at half the rate, as another job is there
  bool knows_duration = false;   // the phase has been seen before
  bool knows_bytes = false;
};

struct Errors {
  double at_10 = 0;
  double at_50 = 0;
  double at_90 = 0;
  int missing = 0;  // no forecast
};

// Reports every 10 ms of the phase. Returns the relative errors of this phase by tenth; -1: none.
std::vector<double> RunPhase(const Program& program, std::mt19937& random) {
  std::uniform_real_distribution<double> jitter(1 - program.jitter, 1 + program.jitter);
  std::uniform_real_distribution<double> noise(0.9, 1.1);
  const double bytes = kUsualBytes * jitter(random);
  const bool is_slow = std::uniform_real_distribution<double>()(random) < program.slowed;
  const double rate = kUsualBytes / kUsualSeconds * jitter(random) / (is_slow ? 2 : 1);
  const double seconds = bytes / rate;
  EndEstimator ends;
  ends.Begin(kFlow, kBegin, 0);
  if (program.knows_duration) {
    ends.SetUsualDuration(kFlow, 400ms, 16ms,
                          program.knows_bytes ? static_cast<std::uint64_t>(kUsualBytes) : 0);
  }
  std::vector<double> errors(10, -1);
  constexpr double kStep = 0.01;
  std::size_t next = 1;  // tenth
  for (double at = kStep; at < seconds; at += kStep) {
    const double sent = rate * at;
    const double posted =
        std::min(bytes, (std::floor(sent / program.portion) + 1) * program.portion);
    ends.TakeReport(kFlow, kBegin + Duration(static_cast<std::int64_t>(at * 1e9)),
                    program.tells_remaining ? static_cast<std::uint64_t>(bytes - sent) : 0,
                    static_cast<std::uint64_t>(8 * rate * noise(random)),
                    static_cast<std::uint64_t>(posted - sent));
    if (next < 10 && at + kStep > seconds * static_cast<double>(next) / 10) {
      if (const auto forecast = ends.Of(kFlow)) {
        errors[next] = std::abs(SecondsOf(forecast->expected - kBegin) - seconds) / seconds;
      }
      ++next;
    }
  }
  return errors;
}

Errors Measure(const char* name, const Program& program) {
  std::vector<double> errors[10];
  Errors result;
  for (const std::uint64_t seed : SeedsToTry(1, 200)) {
    std::mt19937 random(static_cast<std::uint32_t>(seed));
    const auto found = RunPhase(program, random);
    for (const std::size_t tenth : {1U, 5U, 9U}) {
      if (found[tenth] < 0) ++result.missing;
      errors[tenth].push_back(found[tenth] < 0 ? 1 : found[tenth]);
    }
  }
  const auto at = [&](std::size_t tenth, double part) {
    auto& all = errors[tenth];
    std::ranges::sort(all);
    return all[static_cast<std::size_t>(static_cast<double>(all.size() - 1) * part)];
  };
  result = {at(1, 0.5), at(5, 0.5), at(9, 0.5), result.missing};
  std::printf("%-44s median %5.1f %5.1f %5.1f %%   p90 %5.1f %5.1f %5.1f %%   none %d\n", name,
              100 * result.at_10, 100 * result.at_50, 100 * result.at_90, 100 * at(1, 0.9),
              100 * at(5, 0.9), 100 * at(9, 0.9), result.missing);
  return result;
}

constexpr double kChunk = 2 << 20;  // four chunks of 512 KB, as NCCL posts them

TEST(EndAccuracy, IsHighIfTheProgramTellsWhatRemains) {
  const Errors errors = Measure("remaining bytes", {.tells_remaining = true});
  EXPECT_LE(errors.at_10, 0.05);
  EXPECT_LE(errors.at_50, 0.03);
  EXPECT_LE(errors.at_90, 0.01);
  EXPECT_EQ(errors.missing, 0);
}

TEST(EndAccuracy, IsHighIfAllIsPostedAtOnce) {
  const Errors errors = Measure("occupancy, all posted at once", {});
  EXPECT_LE(errors.at_10, 0.05);
  EXPECT_LE(errors.at_50, 0.03);
  EXPECT_LE(errors.at_90, 0.01);
  const Errors known = Measure("the same, duration known", {.knows_duration = true});
  EXPECT_LE(known.at_10, 0.08);
  EXPECT_LE(known.at_50, 0.03);
  EXPECT_LE(known.at_90, 0.01);
}

TEST(EndAccuracy, ComesFromThePhaseBeforeIfPortionsArePosted) {
  const Errors unknown = Measure("portions, nothing known", {.portion = kChunk});
  const Errors known =
      Measure("portions, duration known", {.portion = kChunk, .knows_duration = true});
  EXPECT_LE(known.at_10, 0.08);
  EXPECT_LE(known.at_50, 0.08);
  EXPECT_LE(known.at_90, 0.08);
  EXPECT_LT(known.at_10, unknown.at_10 / 4);
  EXPECT_LT(known.at_50, unknown.at_50 / 4);
  EXPECT_EQ(known.missing, 0);
  const Errors with_bytes =
      Measure("portions, duration and bytes known",
              {.portion = kChunk, .knows_duration = true, .knows_bytes = true});
  EXPECT_LE(with_bytes.at_10, 0.08);
  EXPECT_LE(with_bytes.at_90, 0.06);
}

// Bytes show that the phase takes longer this time; the duration alone does not.
TEST(EndAccuracy, FollowsTheRateIfBytesAreKnown) {
  const Errors duration = Measure("half rate, duration known",
                                  {.portion = kChunk, .slowed = 1, .knows_duration = true});
  const Errors bytes =
      Measure("half rate, duration and bytes known",
              {.portion = kChunk, .slowed = 1, .knows_duration = true, .knows_bytes = true});
  EXPECT_LE(bytes.at_10, 0.08);
  EXPECT_LT(bytes.at_10, duration.at_10 / 4);
  EXPECT_LT(bytes.at_50, duration.at_50 / 4);
}

TEST(EndAccuracy, GivesAForecastFromTheStartIfTheDurationIsKnown) {
  EndEstimator ends;
  ends.Begin(kFlow, kBegin, 0);
  EXPECT_FALSE(ends.Of(kFlow));
  ends.SetUsualDuration(kFlow, 400ms, 10ms);
  ASSERT_TRUE(ends.Of(kFlow));
  EXPECT_EQ(ends.Of(kFlow)->expected, kBegin + 400ms);
  EXPECT_EQ(ends.Of(kFlow)->earliest, kBegin + 360ms);  // at least a twentieth counts as usual
  // It is late, so it ends soon.
  ends.TakeReport(kFlow, kBegin + 500ms, 0, 1'000'000, 0);
  EXPECT_EQ(ends.Of(kFlow)->expected, kBegin + 520ms);
  // The next phase begins without knowledge.
  ends.Begin(kFlow, kBegin + 1s, 0);
  EXPECT_FALSE(ends.Of(kFlow));
  ends.SetUsualDuration(FlowSlot(9), 1s, 0s);  // never begun
}

}  // namespace
}  // namespace espalier::controller
