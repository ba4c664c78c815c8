#include "controller/paths/models/rehash_detector.h"

#include <gtest/gtest.h>

#include <string>

namespace espalier::controller {
namespace {

using namespace std::chrono_literals;
using fabric::NodeId;

constexpr TimePoint kDetectorStart{1h};

NodeId Leaf(int number) { return NodeId(number); }

void OneHost(RehashDetector& detector, const std::string& host, NodeId from, NodeId to,
             TimePoint now) {
  detector.HandleMismatch(from, to, host, 2, now);
}
void TwoHosts(RehashDetector& detector, NodeId from, NodeId to, TimePoint now) {
  OneHost(detector, "a", from, to, now);
  OneHost(detector, "b", from, to, now);
}

TEST(RehashDetectorTest, NamesThePairOfOneMismatch) {
  RehashDetector detector(16);
  EXPECT_TRUE(detector.Take(kDetectorStart).IsEmpty());
  TwoHosts(detector, Leaf(1), Leaf(2), kDetectorStart);
  const RehashScope scope = detector.Take(kDetectorStart);
  EXPECT_FALSE(scope.fabric);
  EXPECT_TRUE(scope.sources.empty());
  EXPECT_TRUE(scope.Contains(Leaf(1), Leaf(2)));
  EXPECT_FALSE(scope.Contains(Leaf(2), Leaf(1)));
  EXPECT_TRUE(detector.Take(kDetectorStart + 1min).IsEmpty());
}

TEST(RehashDetectorTest, NamesASwitchWithThreePairs) {
  RehashDetector detector(16);
  for (int to = 2; to <= 4; ++to) TwoHosts(detector, Leaf(1), Leaf(to), kDetectorStart);
  const RehashScope scope = detector.Take(kDetectorStart);
  EXPECT_EQ(scope.sources, std::set{Leaf(1)});
  EXPECT_TRUE(scope.pairs.empty());
  EXPECT_TRUE(scope.Contains(Leaf(1), Leaf(9)));
  EXPECT_FALSE(scope.fabric);
}

TEST(RehashDetectorTest, CountsPairsThatComeOneByOne) {
  RehashDetector detector(16);
  TwoHosts(detector, Leaf(1), Leaf(2), kDetectorStart);
  EXPECT_EQ(detector.Take(kDetectorStart).pairs.size(), 1U);
  TwoHosts(detector, Leaf(1), Leaf(3), kDetectorStart + 1min);
  EXPECT_EQ(detector.Take(kDetectorStart + 1min).pairs.size(), 1U);
  TwoHosts(detector, Leaf(1), Leaf(4), kDetectorStart + 2min);
  EXPECT_EQ(detector.Take(kDetectorStart + 2min).sources.size(), 1U);
}

TEST(RehashDetectorTest, ForgetsMismatchesAfterTheWindow) {
  RehashDetector detector(16);
  for (int i = 0; i < 4; ++i) {
    const TimePoint now = kDetectorStart + i * 6min;
    TwoHosts(detector, Leaf(1), Leaf(2 + i), now);
    EXPECT_TRUE(detector.Take(now).sources.empty()) << i;
  }
}

TEST(RehashDetectorTest, NamesTheFabricWithSeveralSwitches) {
  RehashDetector detector(16);
  for (int from = 0; from < 3; ++from) {
    for (int to = 4; to < 7; ++to) TwoHosts(detector, Leaf(from), Leaf(to), kDetectorStart);
    EXPECT_EQ(detector.Take(kDetectorStart + from * 1s).fabric, from == 2) << from;
  }
}

// Two leaves of four are half of the fabric, and a fabric of two leaves has one pair of each.
TEST(RehashDetectorTest, NeedsFewerInASmallFabric) {
  RehashDetector four(4);
  for (int from = 0; from < 2; ++from) {
    for (int to = 0; to < 4; ++to) {
      if (to != from) TwoHosts(four, Leaf(from), Leaf(to), kDetectorStart);
    }
  }
  EXPECT_TRUE(four.Take(kDetectorStart).fabric);
  RehashDetector two(2);
  TwoHosts(two, Leaf(0), Leaf(1), kDetectorStart);
  EXPECT_EQ(two.Take(kDetectorStart).sources.size(), 1U);
}

// A host that answers probes falsely.
TEST(RehashDetectorTest, CountsWhatOneHostSeesForItsOwnPortsOnly) {
  RehashDetector detector(4);
  for (TimePoint now = kDetectorStart; now < kDetectorStart + 10min; now += 1s) {
    for (int from = 0; from < 2; ++from) {
      for (int to = 0; to < 4; ++to) {
        if (to != from) OneHost(detector, "liar" + std::to_string(from), Leaf(from), Leaf(to), now);
      }
    }
    const RehashScope scope = detector.Take(now);
    EXPECT_FALSE(scope.fabric);
    EXPECT_TRUE(scope.sources.empty());
    EXPECT_TRUE(scope.pairs.empty());
    if (now != kDetectorStart) continue;
    EXPECT_TRUE(scope.ContainsHost(Leaf(0), Leaf(1), "liar0"));
    EXPECT_FALSE(scope.ContainsHost(Leaf(0), Leaf(1), "liar1"));
    EXPECT_FALSE(scope.Contains(Leaf(0), Leaf(1)));
  }
}

TEST(RehashDetectorTest, CountsForAllWhenASecondHostSeesIt) {
  RehashDetector detector(16);
  OneHost(detector, "a", Leaf(1), Leaf(2), kDetectorStart);
  EXPECT_EQ(detector.Take(kDetectorStart).host_pairs.size(), 1U);
  OneHost(detector, "b", Leaf(1), Leaf(2), kDetectorStart + 2s);
  const RehashScope scope = detector.Take(kDetectorStart + 2s);
  EXPECT_EQ(scope.pairs.size(), 1U);
  EXPECT_TRUE(scope.host_pairs.empty());
  // What both saw before does not support a later claim of one of them.
  OneHost(detector, "a", Leaf(1), Leaf(2), kDetectorStart + 1min);
  const RehashScope later = detector.Take(kDetectorStart + 1min);
  EXPECT_TRUE(later.pairs.empty());
  EXPECT_EQ(later.host_pairs.size(), 1U);
}

TEST(RehashDetectorTest, NamesASwitchByTwoHostsThatSeeDifferentPairs) {
  RehashDetector detector(16);
  OneHost(detector, "a", Leaf(1), Leaf(2), kDetectorStart);
  OneHost(detector, "a", Leaf(1), Leaf(3), kDetectorStart);
  OneHost(detector, "b", Leaf(1), Leaf(4), kDetectorStart);
  EXPECT_EQ(detector.Take(kDetectorStart).sources, std::set{Leaf(1)});
}

TEST(RehashDetectorTest, BelievesAHostThatIsAloneOnItsLeaf) {
  RehashDetector detector(16);
  detector.HandleMismatch(Leaf(1), Leaf(2), "a", 1, kDetectorStart);
  EXPECT_EQ(detector.Take(kDetectorStart).pairs.size(), 1U);
}

// A switch whose hash changes all the time causes a bounded number of results, and its last change
// is not forgotten.
TEST(RehashDetectorTest, BoundsTheResultsOfAFlappingFabric) {
  RehashDetector detector(8);
  int results = 0;
  int fabrics = 0;
  for (TimePoint now = kDetectorStart; now < kDetectorStart + 10min; now += 100ms) {
    for (int from = 0; from < 8; ++from) {
      for (int to = 0; to < 8; ++to) {
        if (to != from) TwoHosts(detector, Leaf(from), Leaf(to), now);
      }
    }
    const RehashScope scope = detector.Take(now);
    results += scope.IsEmpty() ? 0 : 1;
    fabrics += scope.fabric ? 1 : 0;
  }
  EXPECT_GE(fabrics, 9);
  EXPECT_LE(fabrics, 10);
  EXPECT_LE(results, 70);
  EXPECT_FALSE(detector.Take(kDetectorStart + 12min).IsEmpty());
}

}  // namespace
}  // namespace espalier::controller
