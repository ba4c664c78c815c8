#include "controller/prediction/phase_learner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <map>

#include "tests/controller/prediction/phase_schedule.h"
#include "tests/seeds.h"

namespace espalier::controller {
namespace {

using namespace std::chrono_literals;

void Play(CycleLearner& learner, EdgePlayer& player, int iterations) {
  PredictionTally tally(learner, 0ms);
  for (int i = 0; i < iterations; ++i) tally.Play(player.NextIteration());
  learner.Tick(player.now());
}

void Feed(CycleLearner& learner, const EdgePlayer::Edge& edge) {
  if (edge.is_start) {
    learner.HandleStart(edge.key, 1, edge.time);
  } else {
    learner.HandleEnd(edge.key, edge.time);
  }
}

TEST(PhaseLearner, LearnsTrainingJobsWithinTenPeriods) {
  for (const double jitter : {0.0, 0.01, 0.05}) {
    for (std::size_t phases = 2; phases <= 6; ++phases) {
      double worst = 1;
      int latest = 0;  // period by which the phases were learned
      for (const std::uint64_t seed : SeedsToTry(1, 12)) {
        SCOPED_TRACE(testing::Message()
                     << phases << " phases, jitter " << jitter << " seed " << seed);
        const JobSchedule job = TrainingJob(phases, jitter);
        EdgePlayer player(job, seed);
        CycleLearner learner;
        PredictionTally tally(learner, job.period / 10);
        int learned_in = 0;
        for (int i = 1; i <= 10; ++i) {
          tally.Play(player.NextIteration());
          if (learned_in == 0 && learner.ArePhasesLearned()) learned_in = i;
        }
        ASSERT_TRUE(learner.ArePhasesLearned());
        latest = std::max(latest, learned_in);
        tally.Reset();
        for (int i = 0; i < 30; ++i) {
          tally.Play(player.NextIteration());
          EXPECT_TRUE(learner.ArePhasesLearned());
        }
        EXPECT_GE(tally.HitRate(), 0.95);
        worst = std::min(worst, tally.HitRate());
        std::set<KeySet> expected;
        for (const ScheduledPhase& phase : job.phases) expected.insert(phase.flows);
        EXPECT_EQ(MembersOf(learner.Phases()), expected);
        for (const auto& phase : learner.Phases()) {
          ASSERT_TRUE(phase.period);
          // Flows that are in several phases at equal distances have a shorter period.
          const double rounds = std::round(SecondsOf(job.period) / SecondsOf(*phase.period));
          EXPECT_NEAR(SecondsOf(*phase.period) * rounds, SecondsOf(job.period), 0.2);
          EXPECT_NEAR(SecondsOf(phase.duration), SecondsOf(job.phases[0].busy), 0.06);
        }
      }
      std::printf("%zu phases, jitter %.0f %%: learned in period %d, least share predicted %.3f\n",
                  phases, jitter * 100, latest, worst);
    }
  }
}

// Flows that come up in another order at each start are the same list, which is not made again.
TEST(PhaseLearner, MakesAListOnlyOfFlowsThatWereNotBusyTogetherBefore) {
  PhaseLearner learner({.together = 20ms, .pause = 5ms, .told_within = 60ms, .max_flows = 1'000});
  const FlowSetId set(1);
  TimePoint now{1h};
  const auto start = [&](std::uint64_t first, std::uint64_t count) {
    for (std::uint64_t i = 0; i < count; ++i) {
      const MemberKey key(first +
                          (i + static_cast<std::uint64_t>(now.time_since_epoch() / 1s)) % count);
      learner.HandleStart(key, now);
      if (i == 0) learner.BeginStart(set, now);
      learner.Join(set, key);
    }
    for (std::uint64_t i = 0; i < count; ++i) learner.HandleEnd(MemberKey(first + i), now + 50ms);
    now += 1s;
    learner.Tick(now);
  };
  for (int round = 0; round < 10; ++round) start(1, 100);
  EXPECT_EQ(learner.lists_made(), 1U);
  EXPECT_EQ(learner.TurnOf(set, 1, 0).others.size(), 100U);
  start(1, 99);
  EXPECT_EQ(learner.lists_made(), 2U);
  start(1, 100);
  EXPECT_EQ(learner.lists_made(), 2U);
  // Others take the places of flows that are forgotten.
  for (std::uint64_t i = 1; i <= 100; ++i) learner.Forget(MemberKey(i));
  for (int round = 0; round < 16; ++round) start(1'001, 100);
  EXPECT_EQ(learner.lists_made(), 3U);
  const auto others = learner.TurnOf(set, 1, 0).others;
  ASSERT_EQ(others.size(), 100U);
  EXPECT_EQ(others.front(), MemberKey(1'001));
  EXPECT_EQ(others.back(), MemberKey(1'100));
}

TEST(PhaseLearner, FindsFlowsThatAreStillBusyWhenASetStarts) {
  const KeySet pipeline = Flows(0, 4);
  const KeySet ring = Flows(100, 6);
  CycleLearner learner;
  EdgePlayer player({.phases = {{pipeline, 0ms, 500ms}, {ring, 300ms, 300ms}}, .jitter = 0.02}, 1);
  Play(learner, player, 10);
  EXPECT_EQ(MembersOf(learner.Phases()), (std::set<KeySet>{pipeline, pipeline + ring}));
}

TEST(PhaseLearner, TakesShortPausesAsPartOfAPhase) {
  const KeySet ring = Flows(0, 6);
  CycleLearner learner;
  EdgePlayer player({.phases = {{ring, 0ms, 400ms, 14, 2ms}}, .jitter = 0.01}, 1);
  Play(learner, player, 10);
  ASSERT_EQ(learner.Phases().size(), 1U);
  EXPECT_EQ(learner.StartsOf(learner.Phases()[0].starts), 10U);
  EXPECT_NEAR(SecondsOf(learner.Phases()[0].duration), 0.4, 0.02);
  EXPECT_EQ(learner.errors().starts.count(), 8U);  // from the third start on
}

TEST(PhaseLearner, FollowsDrift) {
  CycleLearner learner;
  JobSchedule job = TrainingJob(4, 0.01);
  job.drift = 0.01;
  EdgePlayer player(job, 1);
  PredictionTally tally(learner, job.period / 10);
  for (int i = 0; i < 10; ++i) tally.Play(player.NextIteration());
  tally.Reset();
  for (int i = 0; i < 30; ++i) tally.Play(player.NextIteration());
  EXPECT_TRUE(learner.ArePhasesLearned());
  EXPECT_GE(tally.HitRate(), 0.95);
}

TEST(PhaseLearner, CopesWithStragglersAndLostEnds) {
  for (const std::uint64_t seed : SeedsToTry(1, 10)) {
    SCOPED_TRACE(seed);
    CycleLearner learner;
    JobSchedule job = TrainingJob(4, 0.01);
    job.stragglers = 0.02;
    job.lost_ends = 0.02;
    EdgePlayer player(job, seed);
    PredictionTally tally(learner, job.period / 8);
    for (int i = 0; i < 20; ++i) tally.Play(player.NextIteration());
    tally.Reset();
    for (int i = 0; i < 20; ++i) tally.Play(player.NextIteration());
    EXPECT_TRUE(learner.ArePhasesLearned());
    EXPECT_GE(tally.HitRate(), 0.9);
    // Every phase is covered, if not exactly.
    for (const ScheduledPhase& phase : job.phases) {
      const auto learned = MembersOf(learner.Phases());
      EXPECT_TRUE(std::ranges::any_of(learned, [&](const KeySet& members) {
        return std::ranges::includes(members, phase.flows);
      }));
    }
  }
}

// The flows of a host whose agent dies never end.
TEST(PhaseLearner, DoesNotCountFlowsThatNeverEndForEver) {
  const KeySet dead = Flows(0, 1);
  const KeySet pipeline = Flows(1, 3);
  const KeySet ring = Flows(100, 6);
  CycleLearner learner;
  EdgePlayer before({.phases = {{dead + pipeline, 0ms, 200ms}, {ring, 500ms, 300ms}}}, 1);
  Play(learner, before, 6);
  EdgePlayer after({.phases = {{pipeline, 0ms, 200ms}, {ring, 500ms, 300ms}}}, 2);
  learner.HandleStart(*dead.begin(), 1, before.now());
  for (int i = 0; i < 30; ++i) {
    for (auto edge : after.NextIteration()) {
      edge.time += before.now() - TimePoint(1h);
      Feed(learner, edge);
    }
  }
  EXPECT_EQ(MembersOf(learner.Phases()), (std::set<KeySet>{pipeline, ring}));
}

TEST(PhaseLearner, LearnsNothingFromAJobThatDoesNotRepeat) {
  for (const std::uint64_t seed : SeedsToTry(1, 10)) {
    SCOPED_TRACE(seed);
    std::mt19937 random(static_cast<std::uint32_t>(seed));
    CycleLearner learner({.max_members = 200, .max_sets = 16});
    TimePoint now{1h};
    int learned = 0;
    for (int burst = 0; burst < 400; ++burst) {
      now += std::chrono::milliseconds(30 + random() % 2'000);
      std::vector<EdgePlayer::Edge> edges;
      const std::size_t count = 1 + random() % 10;
      for (std::size_t i = 0; i < count; ++i) {
        const CycleLearner::Key key(random() % 1'000);
        edges.push_back({now, true, key});
        edges.push_back({now + std::chrono::milliseconds(1 + random() % 500), false, key});
      }
      std::ranges::sort(edges);
      for (const auto& edge : edges) Feed(learner, edge);
      now = edges.back().time;
      if (learner.ArePhasesLearned()) ++learned;
      EXPECT_LE(learner.member_count(), 200U);
      EXPECT_LE(learner.set_count(), 16U);
    }
    EXPECT_EQ(learned, 0);
  }
}

// Their flows are in one learner, but their periods differ.
TEST(PhaseLearner, LearnsTwoJobsOfOneName) {
  const KeySet first = Flows(0, 4);
  const KeySet second = Flows(100, 4);
  EdgePlayer a({.phases = {{first, 0ms, 300ms}}, .period = 1s, .jitter = 0.01}, 1);
  EdgePlayer b({.phases = {{second, 0ms, 500ms}}, .period = 1'370ms, .jitter = 0.01}, 2);
  std::vector<EdgePlayer::Edge> edges;
  for (int i = 0; i < 41; ++i) std::ranges::copy(a.NextIteration(), std::back_inserter(edges));
  for (int i = 0; i < 30; ++i) std::ranges::copy(b.NextIteration(), std::back_inserter(edges));
  std::ranges::sort(edges);
  CycleLearner learner;
  for (const auto& edge : edges) Feed(learner, edge);
  EXPECT_TRUE(learner.ArePhasesLearned());
  // They meet in more than a quarter of the periods.
  EXPECT_TRUE(MembersOf(learner.Phases()).contains(first + second));
}

TEST(PhaseLearner, IsNotLearnedWithoutEnds) {
  CycleLearner learner;
  EdgePlayer player(TrainingJob(3, 0), 1);
  for (int i = 0; i < 10; ++i) {
    for (const auto& edge : player.NextIteration()) {
      if (edge.is_start) learner.HandleStart(edge.key, 1, edge.time);
    }
  }
  EXPECT_FALSE(learner.ArePhasesLearned());
  EXPECT_TRUE(learner.Phases().empty());
}

TEST(PhaseLearner, KnowsWhatTheBurstsOfAFlowTook) {
  PhaseLearner learner({.together = 20ms, .pause = 5ms, .max_flows = 10});
  const MemberKey key(7);
  EXPECT_EQ(learner.BurstOf(key, 1).length.seen, 0U);
  TimePoint now{1h};
  const auto burst = [&](Duration duration, std::uint64_t bytes) {
    now += 1s;
    learner.HandleStart(key, now);
    learner.HandleEnd(key, now + duration, bytes);
  };
  // Long and short ones in turn.
  for (int i = 0; i < 6; ++i) {
    burst(200ms + i * 1ms, 1'000);
    burst(30ms, 100);
  }
  EXPECT_EQ(learner.BurstOf(key, 2).length.duration, 204ms);
  EXPECT_EQ(learner.BurstOf(key, 2).length.deviation, 1ms);
  EXPECT_EQ(learner.BurstOf(key, 2).bytes, 1'000U);
  burst(206ms, 1'000);
  EXPECT_EQ(learner.BurstOf(key, 2).length.duration, 30ms);
  EXPECT_EQ(learner.BurstOf(key, 2).length.seen, 3U);
}

constexpr FlowSetId kFirst(1);
constexpr FlowSetId kSecond(2);

// Agents tell busy edges at once, but let idle edges wait.
TEST(PhaseLearner, EndsThatAreToldLateCountFromTheirTimes) {
  PhaseLearner learner({.together = 20ms, .pause = 5ms, .told_within = 60ms, .max_flows = 10});
  const MemberKey a(7);
  const MemberKey b(8);
  TimePoint now{1h};
  const auto start = [&](FlowSetId set, MemberKey key, TimePoint at) {
    learner.HandleStart(key, at);
    learner.BeginStart(set, at);
    learner.Join(set, key);
  };
  for (int i = 0; i < 6; ++i, now += 1s) {
    start(kFirst, a, now);
    start(kSecond, b, now + 50ms);
    learner.Tick(now + 75ms);
    learner.HandleEnd(a, now + 45ms);  // told 40 ms later
    learner.Tick(now + 85ms);
    learner.HandleEnd(b, now + 90ms);
    learner.Tick(now + 500ms);
  }
  EXPECT_THAT(learner.TurnOf(kSecond, 1, 0).others, testing::ElementsAre(b));
  EXPECT_EQ(learner.LengthOf(kFirst).duration, 45ms);
}

TEST(PhaseLearner, AFlowThatWasBusyAtOneStartByChanceIsNotInThePhase) {
  PhaseLearner learner({.together = 20ms, .pause = 5ms, .max_flows = 10});
  const MemberKey member(7);
  const MemberKey other(8);
  TimePoint now{1h};
  const auto play = [&](bool with_other) {
    learner.HandleStart(member, now);
    learner.BeginStart(kFirst, now);
    learner.Join(kFirst, member);
    if (with_other) learner.HandleStart(other, now + 1ms);
    learner.HandleEnd(member, now + 100ms);
    if (with_other) learner.HandleEnd(other, now + 100ms);
    learner.Tick(now + 500ms);
    now += 1s;
  };
  play(false);
  play(false);
  play(true);
  EXPECT_THAT(learner.TurnOf(kFirst, 1, 0).others, testing::ElementsAre(member));
  play(true);
  EXPECT_THAT(learner.TurnOf(kFirst, 1, 0).others, testing::ElementsAre(member, other));
}

// At each of eight turns, two starts are known, and the latest eight had the flow by chance once.
TEST(PhaseLearner, AFlowThatWasBusyAtOneOfTwoStartsIsNotInThePhase) {
  PhaseLearner learner({.together = 20ms, .pause = 5ms, .max_flows = 10});
  const MemberKey member(7);
  const MemberKey other(8);
  TimePoint now{1h};
  for (int i = 0; i < 16; ++i, now += 1s) {
    const bool with_other = i == 12;
    learner.HandleStart(member, now);
    learner.BeginStart(kFirst, now);
    learner.Join(kFirst, member);
    if (with_other) learner.HandleStart(other, now + 1ms);
    learner.HandleEnd(member, now + 100ms);
    if (with_other) learner.HandleEnd(other, now + 100ms);
    learner.Tick(now + 500ms);
  }
  for (std::size_t turn = 0; turn < 8; ++turn) {
    EXPECT_THAT(learner.TurnOf(kFirst, 8, turn).others, testing::ElementsAre(member));
  }
}

TEST(PhaseLearner, ABurstThatGoesOnAfterAPauseIsOne) {
  PhaseLearner learner({.together = 20ms, .pause = 5ms, .max_flows = 10});
  const MemberKey key(7);
  const TimePoint now{1h};
  EXPECT_TRUE(learner.HandleStart(key, now));
  learner.HandleEnd(key, now + 50ms, 500);
  EXPECT_FALSE(learner.HandleStart(key, now + 52ms));
  learner.HandleEnd(key, now + 90ms, 300);
  EXPECT_EQ(learner.BurstOf(key, 1).length.seen, 1U);
  EXPECT_EQ(learner.BurstOf(key, 1).length.duration, 90ms);
  EXPECT_EQ(learner.BurstOf(key, 1).bytes, 800U);
}

// Numbers only save looking flows up. One of another flow, or of one that is forgotten, changes
// nothing.
TEST(CycleLearner, WrongNumbersOfFlowsDoNoHarm) {
  const auto play = [](const std::function<void(CycleLearner&, CycleLearner::Key)>& expect) {
    EdgePlayer player(
        {.phases = {{Flows(1, 8), 0ms, 100ms}, {Flows(5, 8), 500ms, 100ms}}, .jitter = 0.05}, 1);
    CycleLearner learner;
    std::vector<bool> expected;
    for (int i = 0; i < 20; ++i) {
      for (const EdgePlayer::Edge& edge : player.NextIteration()) {
        expect(learner, edge.key);
        if (edge.is_start) {
          expected.push_back(learner.HandleStart(edge.key, 1, edge.time));
        } else {
          learner.HandleEnd(edge.key, edge.time);
        }
      }
      // A flow that belongs to no set is forgotten when it has ended.
      learner.HandleStart(CycleLearner::Key(1'000), 1, player.now());
      learner.HandleEnd(CycleLearner::Key(1'000), player.now());
    }
    return std::pair(expected, MembersOf(learner.Phases()));
  };
  const auto right = play([](CycleLearner&, CycleLearner::Key) {});
  EXPECT_FALSE(right.second.empty());
  std::mt19937 random(1);
  EXPECT_EQ(play([&](CycleLearner& learner, CycleLearner::Key key) {
              learner.activity().Expect(key, static_cast<std::uint32_t>(random() % 20));
            }),
            right);
  EXPECT_EQ(play([&](CycleLearner& learner, CycleLearner::Key key) {
              learner.activity().Expect(key, learner.activity().NumberOf(key));
            }),
            right);
}

// The network or the controller stood still when the job began: flows of several phases came at
// once and look like one set. That must not keep the phases from being learned later.
TEST(PhaseLearner, LearnsPhasesWhoseFirstStartsCameTogether) {
  constexpr std::uint64_t kFlows = 64;  // in four phases, 50 ms apart
  std::vector<EdgePlayer::Edge> edges;
  for (std::uint64_t i = 0; i < kFlows; ++i) {
    for (int period = 0; period < 60; ++period) {
      const TimePoint start = TimePoint(1h) + period * 200ms + i % 4 * 50ms + i * 100us;
      edges.push_back({start, true, CycleLearner::Key(i)});
      edges.push_back({start + 25ms, false, CycleLearner::Key(i)});
    }
  }
  std::ranges::sort(edges);
  for (const std::uint64_t seed : SeedsToTry(1, 100)) {
    std::mt19937 random(static_cast<std::uint32_t>(seed));
    const TimePoint stall = TimePoint(1h) + std::chrono::milliseconds(random() % 300);
    const TimePoint stall_ends = stall + std::chrono::milliseconds(random() % 600);
    CycleLearner learner({.max_members = kFlows});
    TimePoint next_look{};
    for (EdgePlayer::Edge edge : edges) {
      if (edge.time >= stall) edge.time = std::max(edge.time, stall_ends);
      Feed(learner, edge);
      if (edge.time < next_look) continue;
      next_look = edge.time + 100ms;  // as the controller's
      static_cast<void>(learner.Upcoming());
    }
    EXPECT_TRUE(learner.ArePhasesLearned()) << "seed " << seed;
  }
}

// The first word of two phases that follow each other closely came late, so they look like one set,
// of which all flows start every time.
TEST(PhaseLearner, LearnsPhasesThatFollowEachOtherCloselyThoughWordIsLate) {
  const KeySet first = Flows(1, 8);
  const KeySet second = Flows(101, 4);
  for (const std::uint64_t seed : SeedsToTry(1, 100)) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    EdgePlayer player({.phases = {{first, 0ms, 20ms}, {second, 70ms, 20ms}}, .period = 300ms},
                      seed);
    std::mt19937 random(static_cast<std::uint32_t>(seed));
    std::vector<EdgePlayer::Edge> edges;
    for (int i = 0; i < 12; ++i) {
      std::map<CycleLearner::Key, Duration> late;  // the word of each burst
      for (const auto key : first + second) {
        late[key] = std::chrono::microseconds(random() % 45'000);
        if (i == 0) late[key] = key.value() < 101 ? 55ms : 0ms;
      }
      for (const EdgePlayer::Edge& edge : player.NextIteration()) {
        edges.push_back({edge.time + late[edge.key], edge.is_start, edge.key});
      }
    }
    std::ranges::sort(edges);
    CycleLearner learner;
    for (const EdgePlayer::Edge& edge : edges) {
      Feed(learner, edge);
      static_cast<void>(learner.Upcoming());
    }
    learner.Tick(player.now() + 100ms);
    ASSERT_TRUE(learner.ArePhasesLearned());
    for (const KeySet& phase : MembersOf(learner.Phases())) {
      EXPECT_TRUE(std::ranges::includes(first, phase) || std::ranges::includes(second, phase))
          << testing::PrintToString(std::vector(phase.begin(), phase.end()));
    }
  }
}

TEST(PhaseLearner, PhasesStayLearnedWhileTheJobDoesNothing) {
  CycleLearner learner;
  const KeySet first = Flows(1, 8);
  const KeySet second = Flows(101, 8);
  EdgePlayer player({.phases = {{first, 0ms, 100ms}, {second, 500ms, 100ms}}}, 1);
  Play(learner, player, 10);
  ASSERT_TRUE(learner.ArePhasesLearned());
  TimePoint now = player.now() + 10min;
  learner.Tick(now);
  EXPECT_TRUE(learner.ArePhasesLearned());
  EXPECT_THAT(MembersOf(learner.Phases()), testing::UnorderedElementsAre(first, second));
  // It goes on with another phase.
  const KeySet other = Flows(201, 1);
  for (int i = 0; i < 10; ++i, now += 1s) {
    learner.HandleStart(*other.begin(), 1, now);
    learner.HandleEnd(*other.begin(), now + 10ms);
  }
  EXPECT_THAT(MembersOf(learner.Phases()), testing::UnorderedElementsAre(other));
}

}  // namespace
}  // namespace espalier::controller
