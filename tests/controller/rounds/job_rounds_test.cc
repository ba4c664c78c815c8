// When jobs communicate, and how long their rounds would take without contention.
#include "controller/rounds/job_rounds.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

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
  // All flows of these tests belong to one group.
  void SetUp() override { Join(); }
  void Join() {
    flow_ = {};
    rounds_.Join(kJob, flow_);
  }
  void Begin(TimePoint at) { rounds_.Begin(kJob, flow_, at); }
  void End(TimePoint at) { rounds_.End(kJob, flow_, at); }
  void Add(const JobRounds::Ends& ends, std::uint64_t bytes) {
    JobRounds::Sender sender{.ends = ends, .member = {.group = flow_.member.group}};
    rounds_.AddBytes(kJob, sender, bytes);
  }
  // One flow of the job has bytes to send for this long.
  void Busy(TimePoint from, Duration duration) {
    Begin(from);
    End(from + duration);
  }

  fabric::Topology topology_ = *fabric::Topology::Build(
      *fabric::BuildLeafSpine({.spines = 1,
                               .leaves = 2,
                               .hosts_per_leaf = 2,
                               .host_rate = BitsPerSecond{8'000'000'000},
                               .fabric_rate = BitsPerSecond{8'000'000'000}}));
  JobRounds rounds_{topology_};
  JobRounds::Sender flow_;
};

TEST_F(Rounds, ARoundLastsFromTheFirstFlowToTheLast) {
  Begin(kStart);
  Begin(kStart + 1ms);
  End(kStart + 2ms);
  End(kStart + 5ms);
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
    Begin(begin);
    rounds_.AddBytes(kJob, sender, static_cast<std::uint64_t>(round) * 1'000'000);
    rounds_.AddBytes(kJob, sender, static_cast<std::uint64_t>(round) * 1'000'000);
    End(begin + 20ms);
  }
  const auto finished = rounds_.Finished(kJob, kStart + 10s);
  ASSERT_EQ(finished.size(), 3U);
  for (int round = 1; round <= 3; ++round) {
    EXPECT_EQ(finished[static_cast<std::size_t>(round) - 1].ideal, round * 2ms);
  }
  rounds_.Forget(kJob);
  Join();
  Begin(kStart + 20s);
  rounds_.AddBytes(kJob, sender, 1'000'000);
  for (std::uint32_t other = 0; other < 100; ++other) {
    JobRounds::Sender stranger;
    rounds_.Join(kJob + 1 + other, stranger);
    rounds_.Begin(kJob + 1 + other, stranger, kStart);
  }
  rounds_.AddBytes(kJob, sender, 1'000'000);
  End(kStart + 20s + 5ms);
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
  Begin(kStart);
  EXPECT_EQ(rounds_.Begun(kJob, kStart + 1h), kStart);
  EXPECT_TRUE(rounds_.Finished(kJob, kStart + 1h).empty());
}

TEST_F(Rounds, TheIdealIsThatOfTheNicWithTheMostBytes) {
  Begin(kStart);
  const auto from = Link("h0--leaf0", true);
  Add({from, Link("h2--leaf1", false), 8'000'000'000}, 1'000'000);
  Add({from, Link("h3--leaf1", false), 8'000'000'000}, 2'000'000);
  End(kStart + 10ms);
  const auto finished = rounds_.Finished(kJob, kStart + 1s);
  ASSERT_EQ(finished.size(), 1U);
  EXPECT_EQ(finished[0].ideal, 3ms);  // 3 MB out of h0 at 1 GB/s
}

TEST_F(Rounds, TheIdealIsThatOfThePairIfItsFastestPathIsSlower) {
  Begin(kStart);
  const JobRounds::Ends pair{Link("h0--leaf0", true), Link("h2--leaf1", false), 800'000'000};
  JobRounds::Sender sender{.ends = pair, .member = {.group = flow_.member.group}};
  rounds_.AddBytes(kJob, sender, 1'000'000);
  rounds_.AddBytes(kJob, sender, 1'000'000);
  Add({Link("h1--leaf0", true), Link("h3--leaf1", false), 800'000'000}, 1);
  End(kStart + 10ms);
  EXPECT_EQ(rounds_.Finished(kJob, kStart + 1s)[0].ideal, 20ms);
}

TEST_F(Rounds, BytesWithOneUnknownEndCountAtTheOther) {
  Begin(kStart);
  Add({std::nullopt, Link("h2--leaf1", false), 0}, 4'000'000);
  End(kStart + 10ms);
  EXPECT_EQ(rounds_.Finished(kJob, kStart + 1s)[0].ideal, 4ms);
}

TEST_F(Rounds, BytesOfOneRoundDoNotCountInTheNext) {
  Begin(kStart);
  Add({Link("h0--leaf0", true), Link("h2--leaf1", false), 1'000'000}, 1'000'000);
  End(kStart + 10ms);
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
  Join();
  Busy(kStart + 2s, 1ms);
  EXPECT_EQ(rounds_.Count(kJob, kStart + 3s), 1U);
}

TEST_F(Rounds, AnUnknownJobHasNoRounds) {
  EXPECT_TRUE(rounds_.Finished(999, kStart).empty());
  EXPECT_EQ(rounds_.Begun(999, kStart), std::nullopt);
  EXPECT_EQ(rounds_.Count(999, kStart), 0U);
}

// A training job of several rings that are not in step, and the log of its generator: how long each
// round of each ring took. Ring g has host g of each of four leaves.
class SeveralRings : public testing::TestWithParam<int> {
 protected:
  static constexpr int kLeaves = 4;
  static constexpr std::int64_t kRate = 8'000'000'000;  // 1 GB/s, of every link

  struct Ring {
    std::vector<JobRounds::Sender> flows;
    Duration duration{};  // of each round
    Duration pause{};
  };
  JobRounds::Ends Ends(int group, int from) const {
    const auto nic = [&](int leaf) {
      return *topology_.FindLink("h" + std::to_string(leaf * GetParam() + group) + "--leaf" +
                                 std::to_string(leaf));
    };
    return {fabric::DirectedLink{nic(from), true},
            fabric::DirectedLink{nic((from + 1) % kLeaves), false}, kRate};
  }
  // Plays the rounds of all rings for a minute, in the order of time.
  void Play(std::vector<Ring>& rings) {
    struct Step {
      TimePoint at;
      std::size_t ring = 0;
      bool begins = true;
    };
    std::vector<Step> steps;
    for (std::size_t g = 0; g < rings.size(); ++g) {
      for (TimePoint at = kStart; at < kStart + 60s; at += rings[g].duration + rings[g].pause) {
        steps.push_back({at, g, true});
        steps.push_back({at + rings[g].duration, g, false});
      }
    }
    std::ranges::stable_sort(steps, {}, &Step::at);
    for (const Step& step : steps) {
      for (JobRounds::Sender& flow : rings[step.ring].flows) {
        if (step.begins) {
          rounds_.Begin(kJob, flow, step.at);
          rounds_.AddBytes(kJob, flow, kBytes);
        } else {
          rounds_.End(kJob, flow, step.at);
        }
      }
    }
  }
  std::vector<Ring> MakeRings() {
    std::vector<Ring> rings(static_cast<std::size_t>(GetParam()));
    for (int g = 0; g < GetParam(); ++g) {
      Ring& ring = rings[static_cast<std::size_t>(g)];
      ring.duration = 400ms + g * 30ms;
      ring.pause = 700ms + g * 170ms;
      for (int leaf = 0; leaf < kLeaves; ++leaf) {
        ring.flows.push_back({.ends = Ends(g, leaf)});
        rounds_.Join(kJob, ring.flows.back());
      }
    }
    return rings;
  }

  static constexpr std::uint64_t kBytes = 300'000'000;  // 300 ms of a link
  fabric::Topology topology_ =
      *fabric::Topology::Build(*fabric::BuildLeafSpine({.spines = GetParam(),
                                                        .leaves = kLeaves,
                                                        .hosts_per_leaf = GetParam(),
                                                        .host_rate = BitsPerSecond{kRate},
                                                        .fabric_rate = BitsPerSecond{kRate}}));
  JobRounds rounds_{topology_};
};

Duration MedianOf(const std::deque<JobRound>& rounds, Duration JobRound::*what) {
  std::vector<Duration> values;
  for (const JobRound& round : rounds) values.push_back(round.*what);
  std::ranges::sort(values);
  return values.at(values.size() / 2);
}

TEST_P(SeveralRings, HaveRoundsOfTheirOwnAndTheSlowestStandsForTheJob) {
  std::vector<Ring> rings = MakeRings();
  Play(rings);
  const TimePoint now = kStart + 70s;
  const auto rounds = rounds_.Finished(kJob, now);
  ASSERT_GE(rounds.size(), 20U);
  const double logged = SecondsOf(rings.back().duration);
  EXPECT_NEAR(SecondsOf(MedianOf(rounds, &JobRound::duration)), logged, 0.05 * logged);
  EXPECT_NEAR(SecondsOf(MedianOf(rounds, &JobRound::ideal)), 0.3, 0.05 * 0.3);
  EXPECT_EQ(rounds_.Groups(kJob, now), static_cast<std::size_t>(GetParam()));
}

// The same over the same NICs, as data-, tensor- and pipeline-parallel groups are.
TEST_P(SeveralRings, HaveRoundsOfTheirOwnOnTheSameNics) {
  std::vector<Ring> rings = MakeRings();
  for (Ring& ring : rings) {
    for (int leaf = 0; leaf < kLeaves; ++leaf) {
      JobRounds::Sender& flow = ring.flows[static_cast<std::size_t>(leaf)];
      rounds_.Leave(kJob, flow);
      flow = {.ends = Ends(0, leaf)};
      rounds_.Join(kJob, flow);
    }
  }
  Play(rings);
  const TimePoint now = kStart + 70s;
  const auto rounds = rounds_.Finished(kJob, now);
  ASSERT_GE(rounds.size(), 10U);
  const double logged = SecondsOf(rings.back().duration);
  // None of those in which several groups sent, before they were told apart.
  for (const JobRound& round : rounds) {
    EXPECT_NEAR(SecondsOf(round.duration), logged, 0.05 * logged);
  }
  EXPECT_EQ(rounds_.Groups(kJob, now), static_cast<std::size_t>(GetParam()));
}

INSTANTIATE_TEST_SUITE_P(Rings, SeveralRings, testing::Values(1, 2, 6));

// Two groups take turns until they are known to be two; then the other one sends meanwhile.
TEST_F(Rounds, TheIdealCountsWhatOtherGroupsSendOverTheSameNic) {
  std::vector<JobRounds::Sender> flows(2);
  for (JobRounds::Sender& flow : flows) {
    flow.ends = {Link("h0--leaf0", true), Link("h2--leaf1", false), 8'000'000'000};
    rounds_.Join(kJob, flow);
  }
  const auto begin = [&](std::size_t flow, TimePoint at, std::uint64_t bytes) {
    rounds_.Begin(kJob, flows[flow], at);
    rounds_.AddBytes(kJob, flows[flow], bytes);
  };
  for (int i = 0; i < 20; ++i) {
    for (const std::size_t flow : {0U, 1U}) {
      const TimePoint at = kStart + i * 1s + (flow == 0 ? 0ms : 500ms);
      begin(flow, at, 200'000'000);
      rounds_.End(kJob, flows[flow], at + 200ms);
    }
  }
  EXPECT_EQ(rounds_.Groups(kJob, kStart + 20s), 2U);
  EXPECT_EQ(rounds_.Finished(kJob, kStart + 20s).back().ideal, 200ms);
  begin(0, kStart + 20s, 200'000'000);
  begin(1, kStart + 20s, 100'000'000);
  for (JobRounds::Sender& flow : flows) rounds_.End(kJob, flow, kStart + 20s + 300ms);
  EXPECT_EQ(rounds_.Finished(kJob, kStart + 21s).back().ideal, 300ms);
}

// A slow flow leads, and a quick one begins out of step with it, until it is known to be another
// group: no round in which both sent is kept, also not the one of that moment.
TEST_F(Rounds, RoundsOfFlowsThatWereTwoGroupsAreLeftOut) {
  for (const Duration pause : {310ms, 430ms, 570ms, 690ms, 830ms}) {
    rounds_.Forget(kJob);
    std::vector<JobRounds::Sender> flows(2);
    for (JobRounds::Sender& flow : flows) {
      flow.ends = {Link("h0--leaf0", true), Link("h2--leaf1", false), 8'000'000'000};
      rounds_.Join(kJob, flow);
    }
    struct Step {
      TimePoint at;
      std::size_t flow = 0;
      bool begins = true;
    };
    std::vector<Step> steps;
    const auto play = [&](std::size_t flow, Duration burst, Duration then) {
      for (TimePoint at = kStart; at < kStart + 50s; at += burst + then) {
        steps.push_back({at, flow, true});
        steps.push_back({at + burst, flow, false});
      }
    };
    play(0, 400ms, 700ms);
    play(1, 100ms, pause);
    std::ranges::stable_sort(steps, {}, &Step::at);
    for (const Step& step : steps) {
      if (step.begins) {
        rounds_.Begin(kJob, flows[step.flow], step.at);
        rounds_.AddBytes(kJob, flows[step.flow], 50'000'000);
      } else {
        rounds_.End(kJob, flows[step.flow], step.at);
      }
    }
    const auto finished = rounds_.Finished(kJob, kStart + 60s);
    ASSERT_GE(finished.size(), 20U);
    for (const JobRound& round : finished) EXPECT_EQ(round.duration, 400ms) << pause.count();
    EXPECT_EQ(rounds_.Groups(kJob, kStart + 60s), 2U);
  }
}

// One round that was very long, or short, says nothing about a group.
TEST_F(Rounds, SlowestGroupIsTheOneWithTheGreatestMedian) {
  JobRounds::Sender usual{.ends = {Link("h0--leaf0", true), std::nullopt, 0}};
  JobRounds::Sender slow{.ends = {Link("h1--leaf0", true), std::nullopt, 0}};
  rounds_.Join(kJob, usual);
  rounds_.Join(kJob, slow);
  const auto play = [&](JobRounds::Sender& sender, TimePoint at, Duration duration) {
    rounds_.Begin(kJob, sender, at);
    rounds_.End(kJob, sender, at + duration);
  };
  for (int i = 0; i < 7; ++i) {
    play(usual, kStart + i * 10s, i == 3 ? Duration(5s) : Duration(100ms));
    play(slow, kStart + i * 10s, i == 4 ? Duration(10ms) : Duration(200ms));
  }
  const auto finished = rounds_.Finished(kJob, kStart + 100s);
  ASSERT_EQ(finished.size(), 7U);
  EXPECT_EQ(finished.front().duration, 200ms);
}

TEST_F(Rounds, JobCommunicatesWhileAFlowOutsideAllGroupsSends) {
  JobRounds::Sender outside{.member = {.id = 1, .group = SenderGroups::kOutside}};
  rounds_.Begin(kJob, outside, kStart);
  rounds_.AddBytes(kJob, outside, 1'000'000);
  EXPECT_EQ(rounds_.Begun(kJob, kStart + 1s), kStart);
  rounds_.End(kJob, outside, kStart + 1s);
  EXPECT_EQ(rounds_.Begun(kJob, kStart + 2s), std::nullopt);
  EXPECT_TRUE(rounds_.Finished(kJob, kStart + 2s).empty());
}

TEST_F(Rounds, TwoFlowsOfAPairMayTakeTwoPaths) {
  Begin(kStart);
  const JobRounds::Ends pair{Link("h0--leaf0", true), Link("h2--leaf1", false), 800'000'000};
  Add(pair, 1'000'000);
  Add(pair, 1'000'000);
  End(kStart + 10ms);
  EXPECT_EQ(rounds_.Finished(kJob, kStart + 1s)[0].ideal, 10ms);
}

// Two hosts of one leaf that send over four of its uplinks each share them, also alone.
TEST_F(Rounds, TheIdealIsThatOfTheLeafIfItsUplinksAreNarrower) {
  // One uplink of 1 GB/s for two hosts of 1 GB/s.
  Begin(kStart);
  Add({Link("h0--leaf0", true), Link("h2--leaf1", false), 8'000'000'000}, 1'000'000);
  Add({Link("h1--leaf0", true), Link("h3--leaf1", false), 8'000'000'000}, 1'000'000);
  End(kStart + 10ms);
  EXPECT_EQ(rounds_.Finished(kJob, kStart + 1s)[0].ideal, 2ms);
}

TEST_F(Rounds, ARoundThatIsSeveralInOneIsLeftOut) {
  for (int i = 0; i < 10; ++i) {
    const int rounds = i == 4 ? 3 : 1;
    Begin(kStart + i * 1s);
    Add({Link("h0--leaf0", true), Link("h2--leaf1", false), 8'000'000'000},
        static_cast<std::uint64_t>(rounds) * 1'000'000);
    End(kStart + i * 1s + rounds * 10ms);
  }
  const auto finished = rounds_.Finished(kJob, kStart + 20s);
  EXPECT_EQ(finished.size(), 9U);
  for (const JobRound& round : finished) EXPECT_EQ(round.duration, 10ms);
}

// A NIC with two uplinks of 1 GB/s sends 2 MB in 1 ms, if they are two flows.
TEST(RoundsOfSeveralUplinks, CountAllUplinks) {
  const fabric::Topology topology =
      *fabric::Topology::Build(*fabric::BuildLeafSpine({.spines = 2,
                                                        .leaves = 4,
                                                        .hosts_per_leaf = 1,
                                                        .host_rate = BitsPerSecond{8'000'000'000},
                                                        .fabric_rate = BitsPerSecond{8'000'000'000},
                                                        .uplinks = 2}));
  const JobRounds::Ends ends{fabric::DirectedLink{*topology.FindLink("h0--leaf0"), true},
                             fabric::DirectedLink{*topology.FindLink("h1--leaf2"), false},
                             8'000'000'000};
  for (const int flows : {1, 2}) {
    JobRounds rounds(topology);
    JobRounds::Sender flow;
    rounds.Join(kJob, flow);
    rounds.Begin(kJob, flow, kStart);
    JobRounds::Sender sender{.ends = ends, .member = {.group = flow.member.group}};
    for (int i = 0; i < flows; ++i) {
      rounds.AddBytes(kJob, sender, 2'000'000 / static_cast<std::uint64_t>(flows));
      sender.pair = nullptr;
    }
    rounds.End(kJob, flow, kStart + 10ms);
    EXPECT_EQ(rounds.Finished(kJob, kStart + 1s)[0].ideal, flows == 1 ? 2ms : 1ms) << flows;
  }
}

TEST(JobOfManyGroups, CountsAsOneGroup) {
  const int hosts = static_cast<int>(SenderGroups::kMaxGroups) + 4;
  const fabric::Topology topology = *fabric::Topology::Build(
      *fabric::BuildLeafSpine({.spines = 1, .leaves = 2, .hosts_per_leaf = hosts}));
  JobRounds rounds(topology);
  std::vector<JobRounds::Sender> flows;
  for (int i = 0; i < hosts; ++i) {
    const fabric::LinkId nic = *topology.FindLink("h" + std::to_string(i) + "--leaf0");
    flows.push_back({.ends = {fabric::DirectedLink{nic, true}, std::nullopt, 0}});
    rounds.Join(kJob, flows.back());
  }
  for (JobRounds::Sender& flow : flows) rounds.Begin(kJob, flow, kStart);
  for (JobRounds::Sender& flow : flows) rounds.End(kJob, flow, kStart + 5ms);
  EXPECT_EQ(rounds.Groups(kJob, kStart + 1s), 1U);
  EXPECT_EQ(rounds.Finished(kJob, kStart + 1s).size(), 1U);
}

}  // namespace
}  // namespace espalier::controller
