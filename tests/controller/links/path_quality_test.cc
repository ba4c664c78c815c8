#include "controller/links/path_quality.h"

#include <gtest/gtest.h>

#include <map>
#include <vector>

namespace espalier::controller {
namespace {

using namespace std::chrono_literals;
using fabric::NodeId;

constexpr TimePoint kQualityStart{1h};
constexpr double kGbps = 1e9;

// Directed links: 0 to 9 lead from NICs, 10 to 19 are uplinks of one leaf, 20 to 29 downlinks, 30
// to 39 lead to NICs. All have 10 Gbit/s.
std::vector<double> Capacities() { return std::vector<double>(40, 10 * kGbps); }

// A subflow of its own NIC over the uplink and downlink of this number.
PathSample Sample(std::uint32_t number, std::uint32_t spine, double gbps, double retries = 0) {
  PathSample sample{.subflow = number,
                    .source = NodeId(static_cast<int>(number)),
                    .destination = NodeId(100 + static_cast<int>(number)),
                    .bps = gbps * kGbps,
                    .retries_per_second = retries,
                    .rtt_us = 20};
  for (const std::uint32_t link : {number, 10 + spine, 20 + spine, 30 + number}) {
    sample.links[sample.link_count++] = link;
  }
  return sample;
}

std::map<std::uint64_t, PathQuality::Judged> Judge(PathQuality& quality, TimePoint now) {
  std::map<std::uint64_t, PathQuality::Judged> judged;
  for (const PathQuality::Judged* each : quality.Judge(now)) judged[each->sample.subflow] = *each;
  return judged;
}

TEST(PathQualityTest, AccusesTheOneThatIsClearlyWorse) {
  PathQuality quality(Capacities());
  for (std::uint32_t i = 0; i < 5; ++i) {
    quality.Take(i == 2 ? Sample(i, i, 3, 100) : Sample(i, i, 9 + 0.1 * i), kQualityStart);
  }
  const auto judged = Judge(quality, kQualityStart);
  ASSERT_EQ(judged.size(), 5U);
  for (const auto& [subflow, each] : judged) EXPECT_EQ(each.accuses, subflow == 2) << subflow;
  EXPECT_EQ(judged.at(2).signs, "rate=0.30 siblings=0.91 retries_per_second=100 siblings=0");
}

// A program may send less than it could, and a path may lose a packet now and then.
TEST(PathQualityTest, NeedsBothALowRateAndASignOfTheNetwork) {
  PathQuality quality(Capacities());
  for (std::uint32_t i = 0; i < 5; ++i) quality.Take(Sample(i, i, 9), kQualityStart);
  quality.Take(Sample(5, 5, 2), kQualityStart);
  quality.Take(Sample(6, 6, 9, 100), kQualityStart);
  for (const auto& [subflow, each] : Judge(quality, kQualityStart)) EXPECT_FALSE(each.accuses);
}

TEST(PathQualityTest, NeedsThreeSiblings) {
  PathQuality quality(Capacities());
  for (std::uint32_t i = 0; i < 3; ++i) {
    quality.Take(i == 2 ? Sample(i, i, 1, 100) : Sample(i, i, 9), kQualityStart);
  }
  EXPECT_FALSE(Judge(quality, kQualityStart).at(2).accuses);
}

// Two subflows that share a link are as fast as they have to be at half of its rate.
TEST(PathQualityTest, ExpectsAnEvenShareOfEachLink) {
  PathQuality quality(Capacities());
  for (std::uint32_t i = 0; i < 6; ++i) quality.Take(Sample(i, i, 9.5), kQualityStart);
  quality.Take(Sample(6, 6, 4.8, 50), kQualityStart);
  quality.Take(Sample(7, 6, 4.8, 50), kQualityStart);
  const auto judged = Judge(quality, kQualityStart);
  EXPECT_FALSE(judged.at(6).accuses);
  EXPECT_FALSE(judged.at(7).accuses);
}

TEST(PathQualityTest, CountsBadSamplesInARowOnOnePath) {
  PathQuality quality(Capacities());
  const auto round = [&](int number, std::uint32_t spine, double gbps, double retries) {
    const TimePoint now = kQualityStart + number * 500ms;
    for (std::uint32_t i = 0; i < 4; ++i) quality.Take(Sample(i, i, 9), now);
    quality.Take(Sample(5, spine, gbps, retries), now);
    return Judge(quality, now).at(5).bad_in_a_row;
  };
  EXPECT_EQ(round(0, 5, 1, 100), 1);
  EXPECT_EQ(round(1, 5, 1, 100), 2);
  EXPECT_EQ(round(2, 5, 9, 0), 2);  // fast for once
  EXPECT_EQ(round(3, 5, 0, 0), 2);  // TCP waits
  EXPECT_EQ(round(4, 5, 0, 9), 3);
  EXPECT_EQ(round(5, 6, 1, 100), 1);  // another path
  for (int i = 6; i < 9; ++i) round(i, 6, 9, 0);
  EXPECT_EQ(round(9, 6, 9, 0), 0);
  EXPECT_EQ(round(10, 6, 1, 100), 1);
  // The network shows no more signs: the program sends less than it could.
  for (int i = 11; i < 14; ++i) EXPECT_EQ(round(i, 6, 1, 0), 1);
  EXPECT_EQ(round(14, 6, 1, 0), 0);
}

// A host that leaves a path because it does not deliver accuses it, once the flow delivers again.
TEST(PathQualityTest, CountsAPathThatItsHostHasLeft) {
  PathQuality quality(Capacities());
  const auto left_at = [&](TimePoint now) {
    for (std::uint32_t i = 0; i < 4; ++i) quality.Take(Sample(i, i, 9), now);
    std::vector<PathQuality::Judged> left;
    for (const PathQuality::Judged* each : quality.Judge(now)) {
      if (each->is_left) left.push_back(*each);
    }
    return left;
  };
  const TimePoint now = kQualityStart;
  for (std::uint32_t i = 0; i < 4; ++i) quality.Take(Sample(i, i, 9), now);
  quality.Take(Sample(5, 5, 1, 100), now);
  Judge(quality, now);
  quality.HandleLeft(Sample(5, 5, 0), false, now);
  EXPECT_TRUE(left_at(now).empty()) << "the other end may be dead";
  quality.HandleLeft(Sample(5, 6, 0), false,
                     now + 300ms);  // at once: it was no better, or not tried
  quality.HandleRecovered(5, NodeId(5), NodeId(99), now);
  EXPECT_TRUE(left_at(now + 400ms).empty()) << "another flow";
  quality.HandleRecovered(5, NodeId(5), NodeId(105), now);
  const auto left = left_at(now + 500ms);
  ASSERT_EQ(left.size(), 1U);
  EXPECT_TRUE(left[0].accuses);
  EXPECT_EQ(left[0].sample.FabricLinks()[0], 15U);
  EXPECT_EQ(left[0].bad_in_a_row, 3) << "one measured before";
  EXPECT_EQ(left_at(now + 10s).size(), 1U);
  EXPECT_TRUE(left_at(now + 11s).empty());
}

// Its probes were answered, so acknowledgements may be lost on the way back, which may be any.
TEST(PathQualityTest, APathThatAnsweredCountsAsLeftOnlyIfItWasMeasuredAsBad) {
  PathQuality quality(Capacities());
  const TimePoint now = kQualityStart;
  for (std::uint32_t i = 0; i < 4; ++i) quality.Take(Sample(i, i, 9), now);
  quality.Take(Sample(5, 5, 1, 100), now);
  Judge(quality, now);
  for (const std::uint32_t subflow : {5U, 6U}) {
    quality.HandleLeft(Sample(subflow, subflow, 0), true, now);
    quality.HandleRecovered(subflow, NodeId(subflow), NodeId(100 + subflow), now);
  }
  for (std::uint32_t i = 0; i < 4; ++i) quality.Take(Sample(i, i, 9), now + 500ms);
  const auto judged = quality.Judge(now + 500ms);
  EXPECT_EQ(std::ranges::count_if(judged, [](const auto* each) { return each->is_left; }), 1);
  for (const PathQuality::Judged* each : judged) {
    EXPECT_EQ(each->is_left, each->sample.subflow == 5);
  }
}

// It is bad on the path that it takes instead, too.
TEST(PathQualityTest, BlamesANicForThePathThatItLeaves) {
  PathQuality quality(Capacities());
  for (std::uint32_t i = 0; i < 4; ++i) quality.Take(Sample(i, i, 9), kQualityStart);
  quality.HandleLeft(Sample(5, 5, 0), false, kQualityStart);
  quality.HandleRecovered(5, NodeId(5), NodeId(105), kQualityStart);
  quality.Take(Sample(5, 6, 1, 100), kQualityStart);
  const auto judged = quality.Judge(kQualityStart);
  EXPECT_EQ(judged.size(), 6U);
  for (const PathQuality::Judged* each : judged) EXPECT_FALSE(each->accuses);
}

// A NIC whose subflow stays bad on another path is to blame itself.
TEST(PathQualityTest, BlamesANicThatIsBadOnSeveralPaths) {
  PathQuality quality(Capacities());
  const auto round = [&](int number, std::uint32_t spine) {
    const TimePoint now = kQualityStart + number * 500ms;
    for (std::uint32_t i = 0; i < 4; ++i) quality.Take(Sample(i, i, 9), now);
    quality.Take(Sample(5, spine, 1, 100), now);
    return Judge(quality, now).at(5).accuses;
  };
  EXPECT_TRUE(round(0, 5));
  EXPECT_TRUE(round(1, 5));
  EXPECT_FALSE(round(2, 6));
  EXPECT_FALSE(round(3, 6));
}

// All flows of a NIC may share a slow link on their way to different destinations.
TEST(PathQualityTest, DoesNotBlameANicWhoseBadPathsShareALink) {
  PathQuality quality(Capacities());
  for (std::uint32_t i = 0; i < 5; ++i) quality.Take(Sample(i, i, 9), kQualityStart);
  for (std::uint32_t to = 0; to < 2; ++to) {
    PathSample sample = Sample(7, 7, 1, 100);
    sample.subflow = 7 + to;
    sample.destination = NodeId(200 + static_cast<int>(to));
    sample.links[2] = 27 + to;
    sample.links[3] = 37 + to;
    quality.Take(sample, kQualityStart);
  }
  const auto judged = Judge(quality, kQualityStart);
  EXPECT_TRUE(judged.at(7).accuses);
  EXPECT_TRUE(judged.at(8).accuses);
}

TEST(PathQualityTest, ForgetsSamples) {
  PathQuality quality(Capacities());
  for (std::uint32_t i = 0; i < 4; ++i) quality.Take(Sample(i, i, 9), kQualityStart);
  EXPECT_TRUE(quality.HasNews());
  EXPECT_EQ(Judge(quality, kQualityStart + 1s).size(), 4U);
  EXPECT_FALSE(quality.HasNews());
  EXPECT_TRUE(Judge(quality, kQualityStart + 2s).empty());
}

}  // namespace
}  // namespace espalier::controller
