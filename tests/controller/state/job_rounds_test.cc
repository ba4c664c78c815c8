// When jobs communicate, and how long their rounds would take without contention.
#include "controller/state/job_rounds.h"

#include <gtest/gtest.h>

#include "common/fabric/builders.h"

namespace espalier::controller {
namespace {

using namespace std::chrono_literals;

constexpr TimePoint kStart{std::chrono::hours(1)};
constexpr std::uint32_t kJob = 2;
constexpr Duration kGap = JobRounds::kGap;

class Rounds : public testing::Test {
 protected:
  fabric::DirectedLink Link(const std::string& id, bool forward) const {
    return {*topology_.FindLink(id), forward};
  }
  void Add(const JobRounds::Ends& ends, std::uint64_t bytes) {
    JobRounds::Sender sender{ends};
    rounds_.AddBytes(kJob, sender, bytes);
  }
  // One flow of the job has bytes to send for this long.
  void Busy(TimePoint from, Duration duration) {
    rounds_.Begin(kJob, from);
    rounds_.End(kJob, from + duration);
  }

  fabric::Topology topology_ = *fabric::Topology::Build(
      *fabric::BuildLeafSpine({.spines = 1,
                               .leaves = 2,
                               .hosts_per_leaf = 2,
                               .host_rate = BitsPerSecond{8'000'000'000},
                               .fabric_rate = BitsPerSecond{8'000'000'000}}));
  JobRounds rounds_{topology_};
};

TEST_F(Rounds, ARoundLastsFromTheFirstFlowToTheLast) {
  rounds_.Begin(kJob, kStart);
  rounds_.Begin(kJob, kStart + 1ms);
  rounds_.End(kJob, kStart + 2ms);
  rounds_.End(kJob, kStart + 5ms);
  const TimePoint now = kStart + 5ms + kGap;
  const auto finished = rounds_.Finished(kJob, now);
  ASSERT_EQ(finished.size(), 1U);
  EXPECT_EQ(finished[0].ended, kStart + 5ms);
  EXPECT_EQ(finished[0].duration, 5ms);
  EXPECT_EQ(rounds_.Count(kJob, now), 1U);
  EXPECT_EQ(rounds_.Begun(kJob, now), std::nullopt);
}

TEST_F(Rounds, ASenderIsCountedInTheRoundInWhichItSends) {
  JobRounds::Sender sender{{Link("h0--leaf0", true), Link("h2--leaf1", false), 8'000'000'000}};
  for (int round = 1; round <= 3; ++round) {
    const TimePoint begin = kStart + round * 1s;
    rounds_.Begin(kJob, begin);
    rounds_.AddBytes(kJob, sender, static_cast<std::uint64_t>(round) * 1'000'000);
    rounds_.AddBytes(kJob, sender, static_cast<std::uint64_t>(round) * 1'000'000);
    rounds_.End(kJob, begin + 20ms);
  }
  const auto finished = rounds_.Finished(kJob, kStart + 10s);
  ASSERT_EQ(finished.size(), 3U);
  for (int round = 1; round <= 3; ++round) {
    EXPECT_EQ(finished[static_cast<std::size_t>(round) - 1].ideal, round * 2ms);
  }
  rounds_.Forget(kJob);
  rounds_.Begin(kJob, kStart + 20s);
  rounds_.AddBytes(kJob, sender, 1'000'000);
  for (std::uint32_t other = 0; other < 100; ++other) rounds_.Begin(kJob + 1 + other, kStart);
  rounds_.AddBytes(kJob, sender, 1'000'000);
  rounds_.End(kJob, kStart + 20s + 5ms);
  EXPECT_EQ(rounds_.Finished(kJob, kStart + 30s).at(0).ideal, 2ms);
}

TEST_F(Rounds, APauseShorterThanTheGapIsPartOfTheRound) {
  Busy(kStart, 10ms);
  Busy(kStart + 10ms + kGap - 1ns, 10ms);
  EXPECT_EQ(rounds_.Begun(kJob, kStart + 20ms + kGap), kStart);
  EXPECT_EQ(rounds_.Count(kJob, kStart + 20ms + kGap), 0U);
  Busy(kStart + 1s, 10ms);
  const auto finished = rounds_.Finished(kJob, kStart + 1s + 10ms);
  ASSERT_EQ(finished.size(), 1U);
  EXPECT_EQ(finished[0].duration, 20ms + kGap - 1ns);
  EXPECT_EQ(rounds_.Begun(kJob, kStart + 1s + 10ms), kStart + 1s);
}

TEST_F(Rounds, ARoundIsNotOverWhileAnyFlowHasSomethingToSend) {
  rounds_.Begin(kJob, kStart);
  EXPECT_EQ(rounds_.Begun(kJob, kStart + 1h), kStart);
  EXPECT_TRUE(rounds_.Finished(kJob, kStart + 1h).empty());
}

TEST_F(Rounds, TheIdealIsThatOfTheNicWithTheMostBytes) {
  rounds_.Begin(kJob, kStart);
  const auto from = Link("h0--leaf0", true);
  Add({from, Link("h2--leaf1", false), 8'000'000'000}, 1'000'000);
  Add({from, Link("h3--leaf1", false), 8'000'000'000}, 2'000'000);
  rounds_.End(kJob, kStart + 10ms);
  const auto finished = rounds_.Finished(kJob, kStart + 1s);
  ASSERT_EQ(finished.size(), 1U);
  EXPECT_EQ(finished[0].ideal, 3ms);  // 3 MB out of h0 at 1 GB/s
}

TEST_F(Rounds, TheIdealIsThatOfThePairIfItsFastestPathIsSlower) {
  rounds_.Begin(kJob, kStart);
  const JobRounds::Ends pair{Link("h0--leaf0", true), Link("h2--leaf1", false), 800'000'000};
  Add(pair, 1'000'000);
  Add(pair, 1'000'000);
  Add({Link("h1--leaf0", true), Link("h3--leaf1", false), 800'000'000}, 1);
  rounds_.End(kJob, kStart + 10ms);
  EXPECT_EQ(rounds_.Finished(kJob, kStart + 1s)[0].ideal, 20ms);
}

TEST_F(Rounds, BytesWithOneUnknownEndCountAtTheOther) {
  rounds_.Begin(kJob, kStart);
  Add({std::nullopt, Link("h2--leaf1", false), 0}, 4'000'000);
  rounds_.End(kJob, kStart + 10ms);
  EXPECT_EQ(rounds_.Finished(kJob, kStart + 1s)[0].ideal, 4ms);
}

TEST_F(Rounds, BytesOfOneRoundDoNotCountInTheNext) {
  rounds_.Begin(kJob, kStart);
  Add({Link("h0--leaf0", true), Link("h2--leaf1", false), 1'000'000}, 1'000'000);
  rounds_.End(kJob, kStart + 10ms);
  Busy(kStart + 1s, 1ms);
  const auto finished = rounds_.Finished(kJob, kStart + 2s);
  ASSERT_EQ(finished.size(), 2U);
  EXPECT_EQ(finished[0].ideal, 8s);
  EXPECT_EQ(finished[1].ideal, 0s);
}

TEST_F(Rounds, KeepsTheLatest64AndCountsAll) {
  for (int i = 0; i < 100; ++i) Busy(kStart + i * 1s, std::chrono::milliseconds(i + 1));
  const auto finished = rounds_.Finished(kJob, kStart + 99s + 100ms);  // the last is not over
  ASSERT_EQ(finished.size(), JobRounds::kMaxKept);
  EXPECT_EQ(finished.front().duration, 36ms);
  EXPECT_EQ(finished.back().duration, 99ms);
  EXPECT_EQ(rounds_.Count(kJob, kStart + 200s), 100U);
}

TEST_F(Rounds, AForgottenNumberStartsWithoutRounds) {
  Busy(kStart, 1ms);
  rounds_.Forget(kJob);
  rounds_.Forget(999);
  EXPECT_EQ(rounds_.Count(kJob, kStart + 1s), 0U);
  EXPECT_TRUE(rounds_.Finished(kJob, kStart + 1s).empty());
  Busy(kStart + 2s, 1ms);
  EXPECT_EQ(rounds_.Count(kJob, kStart + 3s), 1U);
}

TEST_F(Rounds, AnUnknownJobHasNoRounds) {
  EXPECT_TRUE(rounds_.Finished(999, kStart).empty());
  EXPECT_EQ(rounds_.Begun(999, kStart), std::nullopt);
  EXPECT_EQ(rounds_.Count(999, kStart), 0U);
}

}  // namespace
}  // namespace espalier::controller
