// Who has a place among the elephants of a host where there are too few.
#include "agent/flows/flow_meter.h"

#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "agent/flows/elephant_shares.h"

namespace espalier::agent {
namespace {

using namespace std::chrono_literals;
using Counts = std::map<BudgetOwner, ElephantCounts>;

constexpr BudgetOwner kGreedy = 1001;
constexpr BudgetOwner kHonest = 1002;
constexpr BudgetOwner kThird = 1003;

TEST(ElephantShares, EachUserGetsWhatItWantsOrAsMuchAsOthers) {
  Counts shares = DivideElephants({{kGreedy, {9'000, 0}}, {kHonest, {10, 5}}}, 100);
  EXPECT_EQ(shares[kHonest].active, 10U);
  EXPECT_EQ(shares[kHonest].quiet, 5U);
  EXPECT_EQ(shares[kGreedy].active, 85U);
  shares = DivideElephants({{kGreedy, {9'000, 0}}, {kHonest, {90, 0}}, {kThird, {20, 0}}}, 100);
  EXPECT_EQ(shares[kGreedy].active, 40U);
  EXPECT_EQ(shares[kHonest].active, 40U);
  EXPECT_EQ(shares[kThird].active, 20U);
}

TEST(ElephantShares, QuietElephantsGetWhatActiveOnesLeave) {
  Counts shares =
      DivideElephants({{kGreedy, {0, 9'000}}, {kHonest, {70, 0}}, {kThird, {5, 0}}}, 100);
  EXPECT_EQ(shares[kHonest].active, 62U) << "a third is guaranteed to everybody";
  EXPECT_EQ(shares[kGreedy].quiet, 33U);
  shares = DivideElephants({{kGreedy, {10, 200}}, {kHonest, {10, 200}}}, 100);
  EXPECT_EQ(shares[kGreedy].active, 10U);
  EXPECT_EQ(shares[kGreedy].quiet, 40U);
}

TEST(ElephantShares, NoLieAboutActivityTakesAQuietUsersPart) {
  Counts shares = DivideElephants({{kGreedy, {9'000, 0}}, {kHonest, {0, 80}}}, 100);
  EXPECT_EQ(shares[kHonest].quiet, 50U);
  EXPECT_EQ(shares[kGreedy].active, 50U);
  EXPECT_TRUE(DivideElephants({}, 100).empty());
  shares = DivideElephants({{kGreedy, {9, 0}}, {kHonest, {9, 0}}, {kThird, {9, 9}}}, 2);
  EXPECT_LE(shares[kGreedy].active + shares[kHonest].active + shares[kThird].active, 2U);
}

class FlowMeterTest : public testing::Test {
 protected:
  void Open(BudgetOwner user, int count) {
    for (int i = 0; i < count; ++i) {
      FlowSample& flow = flows_.emplace_back();
      flow.id = wire::LocalFlowId(flows_.size());
      flow.user = user;
      flow.remaining_bytes = 1 << 20;
    }
  }
  // Lets the user's flows send, and measures.
  std::map<BudgetOwner, int> Look(Duration later, const std::vector<BudgetOwner>& senders = {}) {
    now_ += later;
    for (FlowSample& flow : flows_) {
      if (std::ranges::find(senders, flow.user) != senders.end()) flow.sent_bytes += 1'000;
    }
    std::map<BudgetOwner, int> counts;
    std::uint64_t last = 0;
    for (const FlowMeasure& measure : meter_.Measure(now_, flows_)) {
      EXPECT_GT(measure.sample->id.value(), last) << "ascending";
      last = measure.sample->id.value();
      ++counts[measure.sample->user];
    }
    return counts;
  }

  std::vector<FlowSample> flows_;
  TimePoint now_{};
  FlowMeter meter_{{.max_elephants = 100}};
};

// One user once took all places for good, and another user's flow was never reported.
TEST_F(FlowMeterTest, OneUserLeavesPlacesForOthers) {
  Open(kGreedy, 900);
  EXPECT_EQ(Look(0ms)[kGreedy], 100);
  Open(kHonest, 1);
  auto counts = Look(10ms, {kGreedy});
  EXPECT_EQ(counts[kHonest], 1);
  EXPECT_EQ(counts[kGreedy], 99);
  Open(kHonest, 899);
  counts = Look(10ms, {kGreedy});
  EXPECT_EQ(counts[kHonest], 50);
  EXPECT_EQ(counts[kGreedy], 50);
}

TEST_F(FlowMeterTest, FlowsThatSendNothingGiveWayToThoseThatDo) {
  Open(kGreedy, 90);
  Open(kHonest, 10);
  EXPECT_EQ(Look(0ms)[kGreedy], 90);
  Open(kThird, 60);
  EXPECT_EQ(Look(10ms, {kHonest, kThird})[kThird], 45) << "nobody is quiet yet";
  Look(5s, {kHonest, kThird});
  const auto counts = Look(10ms, {kHonest, kThird});
  EXPECT_EQ(counts.at(kThird), 57) << "the greedy user keeps a third";
  EXPECT_EQ(counts.at(kHonest), 10);
  EXPECT_EQ(counts.at(kGreedy), 33);
}

TEST_F(FlowMeterTest, AUsersOwnQuietFlowsGiveWayFirst) {
  Open(kGreedy, 100);
  Look(0ms);
  Look(6s);  // all are quiet
  Open(kGreedy, 30);
  EXPECT_EQ(Look(10ms)[kGreedy], 100);
  int fresh = 0;
  for (const FlowMeasure& measure : meter_.Measure(now_, flows_)) {
    fresh += measure.sample->id.value() > 100 ? 1 : 0;
  }
  EXPECT_EQ(fresh, 30);
}

TEST_F(FlowMeterTest, WhoHasAPlaceKeepsItAmongEquals) {
  Open(kHonest, 50);
  Open(kGreedy, 900);
  const auto ids = [&] {
    std::vector<std::uint64_t> placed;
    for (const FlowMeasure& measure : meter_.Measure(now_, flows_)) {
      placed.push_back(measure.sample->id.value());
    }
    return placed;
  };
  Look(0ms);
  const auto before = ids();
  for (int i = 0; i < 100; ++i) Look(10ms, {kGreedy});
  EXPECT_EQ(ids(), before);
}

// Flows that send one after the other over one link never seem to send more than it carries.
TEST_F(FlowMeterTest, RatesOfAllFlowsAreThoseOfOneWindow) {
  constexpr std::uint64_t kBytesPerLook = 25'000;  // 20 Mbit/s in looks of 10 ms
  std::uint64_t most = 0;
  for (int look = 0; look < 200; ++look) {
    if (look % 7 == 0 && flows_.size() < 20) Open(kHonest, 1);
    flows_[static_cast<std::size_t>(look / 3) % flows_.size()].sent_bytes += kBytesPerLook;
    now_ += 10ms;
    std::uint64_t sum = 0;
    for (const FlowMeasure& measure : meter_.Measure(now_, flows_)) sum += measure.achieved_bps;
    most = std::max(most, sum);
  }
  EXPECT_LE(most, 20'000'000U);
  EXPECT_GT(most, 15'000'000U);
}

TEST_F(FlowMeterTest, FlowIsNotBusyInAWindowThatHadBegunBeforeIt) {
  Look(0ms);
  Look(50ms);
  Open(kHonest, 1);
  Look(10ms);
  Look(50ms, {kHonest});
  EXPECT_FALSE(meter_.Measure(now_, flows_).front().busy);
  Look(110ms, {kHonest});
  EXPECT_TRUE(meter_.Measure(now_, flows_).front().busy);
}

}  // namespace
}  // namespace espalier::agent
