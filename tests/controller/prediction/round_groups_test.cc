// Flows of jobs that share a host, in virtual time.
#include "controller/prediction/round_groups.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "tests/controller/prediction/round_starts.h"

namespace espalier::controller {
namespace {

using Member = RoundGroups::Member;

// Flows of one component, unless a test says otherwise. Looks once a second.
class RoundGroupsTest : public testing::Test {
 protected:
  void Add(std::uint32_t flow, const std::vector<TimePoint>& starts, std::uint32_t component = 0) {
    members_.push_back({FlowSlot(flow), component});
    for (const TimePoint start : starts) starts_.emplace(start, FlowSlot(flow));
  }
  // A job of two phases: flows `first` and `first + 1` start together, `first + 2` later.
  void AddJob(std::uint32_t first, const RoundStarts::Shape& shape, double end) {
    RoundStarts job(shape);
    Add(first, job.Of({0}, end));
    Add(first + 1, job.Of({0}, end));
    Add(first + 2, job.Of({0.4 * shape.period}, end));
  }
  void Play(double seconds) {
    const TimePoint end =
        TimePoint{} + std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
    for (; now_ < end; now_ += std::chrono::seconds(1)) {
      while (!starts_.empty() && starts_.begin()->first <= now_) {
        groups_.HandleStart(starts_.begin()->second, 0, starts_.begin()->first);
        starts_.erase(starts_.begin());
      }
      changes_ += groups_.Look(members_) ? 1 : 0;
    }
  }
  // 0: not known.
  std::uint32_t NumberOf(std::uint32_t flow) const {
    const auto group = groups_.GroupOf(FlowSlot(flow));
    return group ? groups_.NumberOf(*group) : 0;
  }
  std::vector<std::uint32_t> Numbers(const std::vector<std::uint32_t>& flows) const {
    std::vector<std::uint32_t> numbers;
    for (const std::uint32_t flow : flows) numbers.push_back(NumberOf(flow));
    return numbers;
  }

  RoundGroups groups_;
  std::vector<Member> members_;
  std::multimap<TimePoint, FlowSlot> starts_;
  TimePoint now_{};
  int changes_ = 0;
};
using Numbers3 = std::vector<std::uint32_t>;

TEST_F(RoundGroupsTest, JobsOfDifferentPeriodsAreToldApart) {
  AddJob(0, {.period = 1, .jitter = 0.03, .late = 0.01}, 600);
  AddJob(3, {.period = 1.31, .jitter = 0.03, .late = 0.01, .seed = 2}, 600);
  Play(200);
  const std::uint32_t one = NumberOf(0);
  const std::uint32_t other = NumberOf(3);
  EXPECT_EQ(one + other, 3U);
  EXPECT_EQ(Numbers({0, 1, 2}), Numbers3(3, one));
  EXPECT_EQ(Numbers({3, 4, 5}), Numbers3(3, other));
  const int changes = changes_;
  Play(600);
  EXPECT_EQ(changes_, changes);  // for good
}

TEST_F(RoundGroupsTest, OneJobWithTwoPhasesIsOneGroup) {
  AddJob(0, {.period = 1, .jitter = 0.1, .late = 0.02}, 600);
  Play(600);
  EXPECT_EQ(Numbers({0, 1, 2}), Numbers3(3, 1));
  EXPECT_EQ(groups_.splits(), 0U);
}

TEST_F(RoundGroupsTest, JobsWhoseRoundsGrowLongerStayApartAndWhole) {
  AddJob(0, {.period = 0.7, .jitter = 0.02, .drift = 0.001}, 600);
  AddJob(3, {.period = 1, .jitter = 0.02, .seed = 2}, 600);
  Play(600);
  EXPECT_EQ(groups_.splits(), 1U);
  EXPECT_EQ(std::set<std::uint32_t>({NumberOf(0), NumberOf(3)}), std::set<std::uint32_t>({1, 2}));
  EXPECT_EQ(Numbers({1, 2}), Numbers3(2, NumberOf(0)));
  EXPECT_EQ(Numbers({4, 5}), Numbers3(2, NumberOf(3)));
}

// Two copies of one job, on like machines: their periods differ by half a per cent.
TEST_F(RoundGroupsTest, SimilarJobsAreToldApartInTime) {
  AddJob(0, {.period = 1}, 600);
  AddJob(3, {.period = 1.005, .begin = 0.1}, 600);
  Play(60);
  EXPECT_EQ(groups_.splits(), 0U);
  Play(600);
  EXPECT_EQ(groups_.splits(), 1U);
  EXPECT_EQ(Numbers({0, 1, 2}), Numbers3(3, NumberOf(0)));
  EXPECT_EQ(Numbers({3, 4, 5}), Numbers3(3, NumberOf(3)));
  EXPECT_NE(NumberOf(0), NumberOf(3));
}

// Flows that start two and three times in a round are apart from each other, but not from one that
// starts once.
TEST_F(RoundGroupsTest, FlowsThatStartSeveralTimesInARoundBelongToTheFlowThatStartsOnce) {
  RoundStarts job({.period = 1, .jitter = 0.02});
  Add(0, job.Of({0.1, 0.43, 0.76}, 300));
  Add(1, job.Of({0, 0.5}, 300));
  Add(2, job.Of({0.9}, 300));
  Play(300);
  EXPECT_EQ(Numbers({0, 1, 2}), Numbers3(3, 1));
  EXPECT_EQ(groups_.splits(), 0U);
}

TEST_F(RoundGroupsTest, FlowThatJoinsLateFindsItsJob) {
  AddJob(0, {.period = 1}, 300);
  AddJob(3, {.period = 1.31}, 300);
  Add(6, RoundStarts({.period = 1.31, .begin = 1.31 * 120}).Of({0.2}, 300));
  Play(157);
  EXPECT_EQ(NumberOf(6), 0U);
  EXPECT_EQ(groups_.splits(), 1U);
  Play(220);
  EXPECT_EQ(NumberOf(6), NumberOf(3));
  EXPECT_EQ(groups_.splits(), 1U);
}

TEST_F(RoundGroupsTest, GroupKeepsItsNumberWhenItsFirstFlowsAndTheOtherJobEnd) {
  AddJob(0, {.period = 1}, 300);
  AddJob(3, {.period = 1.31}, 300);
  Play(200);
  const std::uint32_t older = NumberOf(0) == 1 ? 0 : 3;
  const std::uint32_t younger = 3 - older;
  for (const std::uint32_t flow : {older, older + 1, older + 2, younger}) {
    groups_.Forget(FlowSlot(flow));
    std::erase_if(members_, [&](const Member& member) { return member.flow.value() == flow; });
    std::erase_if(starts_, [&](const auto& start) { return start.second.value() == flow; });
  }
  Play(300);
  EXPECT_EQ(NumberOf(younger + 1), 2U);
  EXPECT_EQ(NumberOf(younger + 2), 2U);
}

TEST_F(RoundGroupsTest, PartsThatConnectLateAreOneGroupUnlessTheyAreApart) {
  AddJob(0, {.period = 1}, 300);
  RoundStarts same({.period = 1});
  Add(3, same.Of({0.6}, 300), 1);
  Add(4, RoundStarts({.period = 1.31}).Of({0}, 300), 2);
  Play(100);
  EXPECT_EQ(Numbers({0, 3, 4}), Numbers3(3, 1));  // of different components
  for (Member& member : members_) member.component = 0;
  Play(110);
  EXPECT_EQ(groups_.GroupOf(FlowSlot(0)), groups_.GroupOf(FlowSlot(3)));
  EXPECT_EQ(std::set<std::uint32_t>({NumberOf(0), NumberOf(4)}), std::set<std::uint32_t>({1, 2}));
}

TEST_F(RoundGroupsTest, IrregularFlowsFoundNothing) {
  std::mt19937 random(1);
  std::exponential_distribution<> wait(2);
  AddJob(0, {.period = 1}, 300);
  for (std::uint32_t flow = 3; flow < 12; ++flow) {
    std::vector<TimePoint> starts;
    for (double at = wait(random); at < 300; at += wait(random)) {
      starts.push_back(TimePoint{} +
                       std::chrono::duration_cast<Duration>(std::chrono::duration<double>(at)));
    }
    Add(flow, starts);
  }
  Play(300);
  EXPECT_EQ(Numbers({0, 1, 2}), Numbers3(3, 1));
  EXPECT_EQ(groups_.splits(), 0U);
}

// One host opens many flows of all kinds. The work is bounded, and other hosts' flows are followed.
TEST_F(RoundGroupsTest, HostileHostCostsBoundedWork) {
  constexpr std::uint32_t kFlows = 4'000;
  std::mt19937 random(1);
  for (std::uint32_t flow = 0; flow < kFlows; ++flow) members_.push_back({FlowSlot(flow), 0});
  for (int round = 0; round < 100; ++round) {
    for (std::uint32_t flow = 0; flow < kFlows; ++flow) {
      now_ += std::chrono::microseconds(1 + random() % 20);
      groups_.HandleStart(FlowSlot(flow), 1, now_ + std::chrono::microseconds(flow * round % 977));
    }
    const std::uint64_t before = groups_.comparisons();
    groups_.Look(members_);
    EXPECT_LE(groups_.comparisons(),
              before + RoundGroups::kMaxComparisons + RoundGroups::kMaxGroups);
  }
  EXPECT_LE(groups_.splits(), RoundGroups::kMaxGroups);
  std::size_t known = 0;
  for (std::uint32_t flow = 0; flow < kFlows; ++flow) known += NumberOf(flow) > 0 ? 1 : 0;
  EXPECT_LE(known, RoundGroups::kMaxFlowsOfHost);
  for (std::uint32_t flow = 0; flow < kFlows; ++flow) groups_.Forget(FlowSlot(flow));
  members_.clear();
  AddJob(kFlows, {.period = 1}, 1e3);
  now_ = {};
  Play(200);
  EXPECT_EQ(NumberOf(kFlows), 1U);
}

}  // namespace
}  // namespace espalier::controller
