#include "controller/history/slowest_flows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <utility>
#include <vector>

#include "tests/seeds.h"

namespace espalier::controller {
namespace {

using testing::ElementsAre;

FlowRecord MakeFlow(std::int32_t source, float bps) {
  FlowRecord flow{};
  flow.source = source;
  flow.bps = bps;
  return flow;
}

std::vector<std::int32_t> SourcesOf(const SlowestFlows& slowest) {
  std::vector<std::int32_t> sources;
  for (const FlowRecord& flow : slowest.flows()) sources.push_back(flow.source);
  return sources;
}

TEST(SlowestFlows, KeepsTheSlowestInOrder) {
  SlowestFlows slowest(3);
  for (const auto& [source, bps] : {std::pair{1, 5.F}, {2, 9.F}, {3, 1.F}, {4, 7.F}, {5, 0.F}}) {
    slowest.Offer(MakeFlow(source, bps));
  }
  EXPECT_THAT(SourcesOf(slowest), ElementsAre(5, 3, 1));
  EXPECT_FALSE(slowest.Takes(5));
  EXPECT_TRUE(slowest.Takes(4));
  slowest.Clear();
  EXPECT_TRUE(slowest.flows().empty());
}

TEST(SlowestFlows, KeepsTheFirstOfEquallySlowOnes) {
  SlowestFlows slowest(2);
  for (const std::int32_t source : {1, 2, 3}) slowest.Offer(MakeFlow(source, 4));
  EXPECT_THAT(SourcesOf(slowest), ElementsAre(1, 2));
}

TEST(SlowestFlows, OfNoneKeepsNone) {
  SlowestFlows slowest(0);
  slowest.Offer(MakeFlow(1, 0));
  EXPECT_TRUE(slowest.flows().empty());
}

TEST(SlowestFlows, AgreeWithASort) {
  for (const std::uint64_t seed : SeedsToTry(1, 100)) {
    SCOPED_TRACE(testing::Message() << "ESPALIER_SEED=" << seed);
    std::mt19937_64 random(seed);
    SlowestFlows slowest(16);
    std::vector<float> rates(random() % 64);
    for (float& rate : rates) {
      rate = static_cast<float>(random() % 32);
      slowest.Offer(MakeFlow(0, rate));
    }
    std::ranges::sort(rates);
    rates.resize(std::min<std::size_t>(rates.size(), 16));
    std::vector<float> kept;
    for (const FlowRecord& flow : slowest.flows()) kept.push_back(flow.bps);
    EXPECT_EQ(kept, rates);
  }
}

}  // namespace
}  // namespace espalier::controller
