#include "controller/prediction/cycle_learner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>
#include <vector>

namespace espalier::controller {
namespace {

using namespace std::chrono_literals;
using Key = CycleLearner::Key;

constexpr std::uint64_t kBytes = 1 << 30;

// A training job: iterations of phases, each of which is a set of flows that start at an offset.
struct Phase {
  std::uint64_t first = 0;  // key
  std::size_t flows = 0;
  Duration offset{};
};

struct Script {
  std::vector<Phase> phases;
  Duration iteration = 1s;
  double jitter = 0;  // of the iteration and the offsets, uniform to either side
  double drift = 0;   // of the iteration, each time
  std::uint32_t seed = 1;
};

class Player {
 public:
  explicit Player(Script script) : script_(std::move(script)), random_(script_.seed) {}

  // Calls start(key, time) for each flow, in the order of time.
  void Iterate(const std::function<void(Key, TimePoint)>& start) {
    std::vector<std::pair<TimePoint, Key>> starts;
    for (const Phase& phase : script_.phases) {
      const TimePoint begin = now_ + Vary(phase.offset);
      for (std::size_t i = 0; i < phase.flows; ++i) {
        const auto late = std::chrono::microseconds(random_() % 1'000);  // until it is reported
        starts.emplace_back(begin + late, Key(phase.first + i));
      }
    }
    std::sort(starts.begin(), starts.end());
    for (const auto& [time, key] : starts) start(key, time);
    now_ += Vary(script_.iteration);
    script_.iteration += Scale(script_.iteration, script_.drift);
  }
  void Pause(Duration pause) { now_ += pause; }
  TimePoint now() const { return now_; }

 private:
  static Duration Scale(Duration duration, double by) {
    return Duration(static_cast<std::int64_t>(static_cast<double>(duration.count()) * by));
  }
  Duration Vary(Duration duration) {
    std::uniform_real_distribution<double> part(-script_.jitter, script_.jitter);
    return duration + Scale(duration, part(random_));
  }

  Script script_;
  std::mt19937 random_;
  TimePoint now_{1h};
};

struct Tally {
  int starts = 0;
  int expected = 0;
  std::vector<double> errors;  // of predicted starts of sets, in seconds

  double Share() const { return static_cast<double>(expected) / starts; }
  double MedianError() {
    std::sort(errors.begin(), errors.end());
    return errors.empty() ? 1e9 : errors[errors.size() / 2];
  }
};

// The tally of these iterations. Predicted times of sets are compared with their first flow.
Tally Play(Player& player, CycleLearner& learner, int iterations) {
  Tally tally;
  for (int i = 0; i < iterations; ++i) {
    player.Iterate([&](Key key, TimePoint time) {
      learner.Tick(time);
      const auto upcoming = learner.Upcoming();
      std::vector<std::uint64_t> before;
      for (const auto& next : upcoming) before.push_back(learner.StartsOf(next.set));
      ++tally.starts;
      tally.expected += learner.HandleStart(key, kBytes, time) ? 1 : 0;
      for (std::size_t n = 0; n < upcoming.size(); ++n) {
        if (learner.StartsOf(upcoming[n].set) == before[n] || !upcoming[n].expected) continue;
        const Duration error = *upcoming[n].expected - time;
        tally.errors.push_back(std::abs(std::chrono::duration<double>(error).count()));
      }
    });
  }
  return tally;
}

Script RingsAndPipeline() {
  return {.phases = {{.first = 100, .flows = 16, .offset = 100ms},
                     {.first = 200, .flows = 8, .offset = 400ms},
                     {.first = 300, .flows = 12, .offset = 700ms}}};
}

TEST(CycleLearner, PredictsFlowsAfterOneIterationAndTimesAfterTwo) {
  Player player(RingsAndPipeline());
  CycleLearner learner;
  Play(player, learner, 1);
  learner.Tick(player.now());
  EXPECT_EQ(learner.set_count(), 3U);
  ASSERT_EQ(learner.Upcoming().size(), 3U);
  EXPECT_FALSE(learner.Upcoming()[0].expected);
  EXPECT_EQ(Play(player, learner, 1).Share(), 1);
  Tally tally = Play(player, learner, 20);
  EXPECT_EQ(tally.Share(), 1);
  EXPECT_EQ(tally.errors.size(), 60U);
  EXPECT_LT(tally.MedianError(), 0.001);
  EXPECT_NEAR(std::chrono::duration<double>(*learner.Period()).count(), 1, 0.002);
  EXPECT_TRUE(learner.IsOn());
  EXPECT_GT(learner.Upcoming()[0].confidence, 0.9);
}

TEST(CycleLearner, JitterBlursTimesButNotFlows) {
  for (const double jitter : {0.05, 0.2}) {
    for (std::uint32_t seed = 1; seed <= 5; ++seed) {
      Script script = RingsAndPipeline();
      script.jitter = jitter;
      script.seed = seed;
      Player player(script);
      CycleLearner learner;
      Play(player, learner, 3);
      Tally tally = Play(player, learner, 40);
      EXPECT_GE(tally.Share(), 0.99) << jitter << " seed " << seed;
      EXPECT_LT(tally.MedianError(), jitter) << "seed " << seed;
      EXPECT_TRUE(learner.IsOn());
    }
  }
}

TEST(CycleLearner, FollowsDriftAndForgetsPauses) {
  Script script = RingsAndPipeline();
  script.drift = 0.01;
  Player player(script);
  CycleLearner learner;
  Play(player, learner, 5);
  Tally drifting = Play(player, learner, 30);
  EXPECT_EQ(drifting.Share(), 1);
  EXPECT_LT(drifting.MedianError(), 0.05);
  player.Pause(60s);  // for a checkpoint
  Play(player, learner, 1);
  Tally after = Play(player, learner, 5);
  EXPECT_EQ(after.Share(), 1);
  EXPECT_LT(after.MedianError(), 0.08);
}

TEST(CycleLearner, SeveralStartsPerIterationHaveSeparateGaps) {
  // The same ring for four buckets of gradients, then the long rest of the iteration.
  Script script{.phases = {{1, 8, 0ms}, {1, 8, 100ms}, {1, 8, 180ms}, {1, 8, 300ms}},
                .iteration = 2s};
  Player player(script);
  CycleLearner learner;
  Play(player, learner, 5);
  Tally tally = Play(player, learner, 10);
  EXPECT_EQ(tally.Share(), 1);
  EXPECT_EQ(learner.set_count(), 1U);
  EXPECT_LT(tally.MedianError(), 0.002);
  EXPECT_NEAR(std::chrono::duration<double>(*learner.Period()).count(), 2, 0.01);
}

TEST(CycleLearner, CollectivesThatInterleaveInChangingOrderAreLearnedSeparately) {
  Script script{.phases = {{1, 8, 300ms}, {50, 8, 310ms}}, .jitter = 0.1};
  Player player(script);
  CycleLearner learner(CycleOptions{.together = 2ms});
  Play(player, learner, 2);
  Tally tally = Play(player, learner, 30);
  EXPECT_EQ(tally.Share(), 1);
  EXPECT_TRUE(learner.IsOn());
}

TEST(CycleLearner, AStragglerStillBelongsToItsSet) {
  CycleLearner learner;
  TimePoint now{1h};
  for (int i = 0; i < 10; ++i) {
    for (std::uint64_t key = 0; key < 8; ++key) {
      const Duration late = i > 2 && key == 7 ? 300ms : 0ms;
      if (late == 0ms) learner.HandleStart(Key(key), kBytes, now);
    }
    if (i > 2) {
      const auto members = learner.MembersOf(learner.Upcoming()[0].set);
      EXPECT_TRUE(members[6].has_started);
      EXPECT_FALSE(members[7].has_started);
      EXPECT_TRUE(learner.HandleStart(Key(7), kBytes, now + 300ms));
    }
    now += 1s;
  }
  EXPECT_EQ(learner.set_count(), 1U);
  EXPECT_TRUE(learner.IsOn());
}

TEST(CycleLearner, ASetHasPartlyStartedUntilItsLastMemberUnlessThatIsLate) {
  CycleLearner learner;
  const TimePoint begin{1h};
  for (int round = 0; round < 3; ++round) {
    for (const Key key : {Key(1), Key(2), Key(3)})
      learner.HandleStart(key, kBytes, begin + round * 1s);
  }
  const CycleLearner::SetId set = learner.Upcoming().front().set;
  EXPECT_FALSE(learner.HasPartlyStarted(set));
  learner.HandleStart(Key(1), kBytes, begin + 3s);
  EXPECT_TRUE(learner.HasPartlyStarted(set));
  learner.HandleStart(Key(2), kBytes, begin + 3s + 1ms);
  EXPECT_TRUE(learner.HasPartlyStarted(set));
  learner.Tick(begin + 3s + 600ms);
  EXPECT_FALSE(learner.HasPartlyStarted(set));
  for (const Key key : {Key(1), Key(2), Key(3)}) learner.HandleStart(key, kBytes, begin + 4s);
  EXPECT_FALSE(learner.HasPartlyStarted(set));
  EXPECT_FALSE(learner.HasPartlyStarted(CycleLearner::SetId(set.value() + 100)));
}

TEST(CycleLearner, AJobThatChangesPhaseIsLearnedAgainAndOldFlowsAreForgotten) {
  CycleLearner learner;
  Player before(Script{.phases = {{1, 20, 0ms}}});
  Play(before, learner, 10);
  EXPECT_TRUE(learner.IsOn());
  Player after(Script{.phases = {{10, 20, 0ms}, {500, 20, 200ms}}});  // ten flows stay
  after.Pause(10s);
  Play(after, learner, 6);
  Tally tally = Play(after, learner, 10);
  EXPECT_EQ(tally.Share(), 1);
  EXPECT_TRUE(learner.IsOn());
  EXPECT_EQ(learner.member_count(), 40U);  // those that left are gone
}

TEST(CycleLearner, SwitchesItselfOffWhileItIsWrong) {
  std::mt19937 random(3);
  CycleLearner learner;
  TimePoint now{1h};
  for (int i = 0; i < 100; ++i) {  // each time other flows
    for (int flow = 0; flow < 16; ++flow) {
      learner.HandleStart(Key(random() % 100'000), kBytes, now);
    }
    now += 1s;
  }
  EXPECT_FALSE(learner.IsOn());
  EXPECT_LT(learner.share_predicted(), 0.1);
  for (int i = 0; i < 40; ++i) {
    for (std::uint64_t key = 500'000; key < 500'016; ++key) {
      learner.HandleStart(Key(key), kBytes, now);
    }
    now += 1s;
  }
  EXPECT_TRUE(learner.IsOn());
}

TEST(CycleLearner, UnrelatedFlowsInAJobDoNotSwitchItOff) {
  std::mt19937 random(4);
  CycleLearner learner;
  Player player(RingsAndPipeline());
  Play(player, learner, 3);
  for (int i = 0; i < 50; ++i) {
    learner.HandleStart(Key(1'000'000 + random()), ~std::uint64_t{0}, player.now());
    EXPECT_EQ(Play(player, learner, 1).Share(), 1);
  }
  EXPECT_TRUE(learner.IsOn());
}

TEST(CycleLearner, MemoryIsBounded) {
  std::mt19937_64 random(5);
  const CycleOptions options{.max_members = 500, .max_sets = 10};
  CycleLearner learner(options);
  TimePoint now{1h};
  for (int i = 0; i < 20'000; ++i) {
    now += Duration(static_cast<std::int64_t>(random() % 60'000'000) - 20'000'000);  // and back
    const std::uint64_t bytes = random();
    learner.HandleStart(Key(random() % 2'000), bytes, now);
    ASSERT_LE(learner.member_count(), options.max_members);
    ASSERT_LE(learner.set_count(), options.max_sets);
    ASSERT_LE(learner.Upcoming().size(), options.max_sets);
  }
}

TEST(CycleLearner, AnEarlierTimeCountsAsTheLast) {
  CycleLearner learner;
  Player player(Script{.phases = {{1, 4, 0ms}}});
  Play(player, learner, 3);
  EXPECT_TRUE(learner.HandleStart(Key(1), kBytes, TimePoint{}));
  EXPECT_GE(learner.last_start(), TimePoint{1h});
  EXPECT_EQ(Play(player, learner, 5).Share(), 1);
}

TEST(CycleLearner, KeepsTheMedianOfSizes) {
  CycleLearner learner;
  TimePoint now{1h};
  for (const std::uint64_t bytes : {kBytes, kBytes, ~std::uint64_t{0}, kBytes, std::uint64_t{0}}) {
    learner.HandleStart(Key(9), bytes, now);
    now += 1s;
  }
  learner.Tick(now);
  EXPECT_EQ(learner.MembersOf(learner.Upcoming()[0].set)[0].bytes, kBytes);
}

TEST(CycleLearner, ADeclaredSetIsPredictedTheFirstTime) {
  CycleLearner learner;
  const std::vector<Key> keys{Key(1), Key(2), Key(3), Key(2)};
  learner.Declare(keys, kBytes, 500ms);
  ASSERT_EQ(learner.Upcoming().size(), 1U);
  EXPECT_EQ(learner.MembersOf(learner.Upcoming()[0].set).size(), 3U);
  const TimePoint now{1h};
  for (const Key key : {Key(2), Key(3), Key(1)}) EXPECT_TRUE(learner.HandleStart(key, kBytes, now));
  EXPECT_EQ(learner.Upcoming()[0].expected, now + 500ms);
  learner.Declare(keys, kBytes, 1s);  // again: nothing new
  EXPECT_EQ(learner.set_count(), 1U);
}

}  // namespace
}  // namespace espalier::controller
