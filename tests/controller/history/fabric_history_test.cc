#include "controller/history/fabric_history.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/controller/history/samples.h"

namespace espalier::controller {
namespace {

using namespace std::chrono_literals;

class FabricHistoryTest : public testing::Test {
 protected:
  FabricHistoryTest() : history_(2) {}
  void Run(int from, int to, std::uint8_t load = 1) {
    for (int second = from; second < to; ++second) history_.Add(samples_.At(second, load));
  }
  static std::size_t Size(const FabricHistory::Series& series) { return series.end - series.begin; }

  Samples samples_;
  FabricHistory history_;
};

TEST_F(FabricHistoryTest, KnowsEachSecondOfTheLastMinutes) {
  Run(0, 1000);
  const auto series = history_.Between(Samples::Time(700), Samples::Time(709));
  EXPECT_EQ(series.step, 1s);
  ASSERT_EQ(Size(series), 10U);
  EXPECT_EQ(series.ring->At(series.begin).begin, Samples::Time(700));
  const auto moment = history_.At(Samples::Time(700) + 400ms);
  ASSERT_TRUE(moment.has_value());
  EXPECT_EQ(moment->step, 1s);
  EXPECT_EQ(moment->sample.fabric.bps, 700);
}

TEST_F(FabricHistoryTest, TakesTheResolutionThatReachesBackFarEnough) {
  Run(0, 9000);
  EXPECT_EQ(history_.Between(Samples::Time(8500), Samples::Time(9000)).step, 1s);
  const auto tens = history_.Between(Samples::Time(3000), Samples::Time(9000));
  EXPECT_EQ(tens.step, 10s);
  EXPECT_EQ(Size(tens), 599U);  // the last one is not over yet
  const auto minutes = history_.Between(Samples::Time(0), Samples::Time(9000));
  EXPECT_EQ(minutes.step, 60s);
  EXPECT_EQ(Size(minutes), 149U);
  EXPECT_EQ(Size(history_.Between(Samples::Time(8000), Samples::Time(9000), 60s)), 16U);
  EXPECT_EQ(history_.oldest(), Samples::Time(0));
}

TEST_F(FabricHistoryTest, RemembersAnHourAgoByMeansAndWorst) {
  Run(0, 1003);
  Run(1003, 1004, 9);  // a load of one second
  Run(1004, 5000);
  const auto moment = history_.At(Samples::Time(1007));
  ASSERT_TRUE(moment.has_value());
  EXPECT_EQ(moment->step, 10s);
  EXPECT_EQ(moment->sample.begin, Samples::Time(1000));
  EXPECT_EQ(moment->sample.links[0].load[0], 9);
  EXPECT_EQ(moment->sample.fabric.most_loaded, 9);
  EXPECT_FLOAT_EQ(moment->sample.fabric.bps, 1004.5F);
  EXPECT_EQ(moment->sample.fabric.moves, 10U);
}

TEST_F(FabricHistoryTest, IsBoundedAndForgetsTheOldest) {
  Run(0, 100'000);
  EXPECT_EQ(history_.used_bytes(), history_.full_bytes());
  EXPECT_GT(history_.oldest(), Samples::Time(100'000 - 86'400 - 120));
  EXPECT_FALSE(history_.At(Samples::Time(10)).has_value());
  EXPECT_EQ(Size(history_.Between(Samples::Time(0), Samples::Time(10))), 0U);
}

TEST_F(FabricHistoryTest, KeepsToItsBudget) {
  for (const std::size_t budget : {0UL, 100UL, 10'000UL, 1'000'000UL, 1UL << 40}) {
    FabricHistory history(4096, budget);
    EXPECT_LE(history.full_bytes(), budget);
  }
  FabricHistory none(2, 0);
  none.Add(samples_.At(1));
  EXPECT_FALSE(none.At(Samples::Time(1)).has_value());
  EXPECT_EQ(none.oldest(), std::nullopt);
  EXPECT_EQ(Size(none.Between(Samples::Time(0), Samples::Time(9))), 0U);
  // A small one reaches back less far at each resolution.
  FabricHistory small(2, FabricHistory(2).full_bytes() / 4);
  for (int second = 0; second < 90'000; ++second) small.Add(samples_.At(second));
  EXPECT_GT(small.oldest(), Samples::Time(90'000 - 86'400 / 3));
  EXPECT_LT(small.oldest(), Samples::Time(90'000 - 86'400 / 5));
}

TEST_F(FabricHistoryTest, DropsSamplesThatAreNotYoungerAndOthersLinks) {
  history_.Add(samples_.At(5));
  history_.Add(samples_.At(5, 9));
  history_.Add(samples_.At(4, 9));
  Sample other = samples_.At(6);
  other.links = other.links.first(1);
  history_.Add(other);
  EXPECT_EQ(history_.At(Samples::Time(9))->sample.fabric.most_loaded, 0);
}

// A controller that was busy, or suspended, leaves a gap; nothing is invented for it.
TEST_F(FabricHistoryTest, HasGapsWhereNothingWasRecorded) {
  Run(0, 25);
  Run(125, 150);
  const auto tens = history_.Between(Samples::Time(0), Samples::Time(200), 10s);
  std::vector<TimePoint> begins;
  for (std::size_t i = tens.begin; i < tens.end; ++i) begins.push_back(tens.ring->At(i).begin);
  EXPECT_EQ(begins, (std::vector{Samples::Time(0), Samples::Time(10), Samples::Time(20),
                                 Samples::Time(125), Samples::Time(130)}));
}

}  // namespace
}  // namespace espalier::controller
