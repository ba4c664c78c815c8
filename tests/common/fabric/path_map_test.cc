#include "common/fabric/path_map.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace espalier::fabric {
namespace {

constexpr PortKey kKey{.source = NodeId(1), .destination = NodeId(2)};
constexpr PortKey kOtherKey{.source = NodeId(2), .destination = NodeId(1)};

PathIndex Path(int index) { return PathIndex(index); }

TEST(PathMap, IsVerifiedByAProbe) {
  PathMap map;
  EXPECT_EQ(map.Find(kKey, 0xC000), std::nullopt);
  EXPECT_TRUE(map.Observe(kKey, 0xC000, Path(3)));
  EXPECT_TRUE(map.Observe(kKey, 0xC000, Path(3)));
  EXPECT_EQ(map.Find(kKey, 0xC000),
            (PortEntry{.port = 0xC000, .trust = PortTrust::kVerified, .path = Path(3)}));
  EXPECT_EQ(map.Find(kOtherKey, 0xC000), std::nullopt);
  EXPECT_EQ(map.Find(kKey, 0xC001), std::nullopt);
}

TEST(PathMap, KeepsTheNewTruthOfAMismatch) {
  PathMap map;
  map.Observe(kKey, 0xC000, Path(3));
  EXPECT_FALSE(map.Observe(kKey, 0xC000, Path(1)));
  EXPECT_EQ(map.Find(kKey, 0xC000),
            (PortEntry{.port = 0xC000, .trust = PortTrust::kVerified, .path = Path(1)}));
  map.Predict(kKey, 0xC001, Path(1));
  EXPECT_FALSE(map.Observe(kKey, 0xC001, Path(2)));
  EXPECT_EQ(map.Find(kKey, 0xC001),
            (PortEntry{.port = 0xC001, .trust = PortTrust::kVerified, .path = Path(2)}));
}

TEST(PathMap, NeverLetsAModelOverrideWhatWasSeen) {
  PathMap map;
  map.Observe(kKey, 0xC000, Path(3));
  map.Predict(kKey, 0xC000, Path(1));
  EXPECT_EQ(map.Find(kKey, 0xC000)->path, Path(3));
  map.Predict(kKey, 0xC001, Path(1));
  map.Predict(kKey, 0xC001, Path(2));  // a better model
  EXPECT_EQ(map.Find(kKey, 0xC001),
            (PortEntry{.port = 0xC001, .trust = PortTrust::kPredicted, .path = Path(2)}));
  EXPECT_TRUE(map.Observe(kKey, 0xC001, Path(2)));
  EXPECT_EQ(map.Find(kKey, 0xC001)->trust, PortTrust::kVerified);
}

TEST(PathMap, DoubtsEverythingAfterAChangeUntilProbedAgain) {
  PathMap map;
  map.Observe(kKey, 0xC000, Path(3));
  map.Predict(kKey, 0xC001, Path(2));
  map.Observe(kOtherKey, 0xC000, Path(3));
  map.MarkReverify([](const PortKey& key) { return key == kKey; });
  EXPECT_EQ(map.Find(kKey, 0xC000)->trust, PortTrust::kReverify);
  EXPECT_EQ(map.Find(kKey, 0xC001)->trust, PortTrust::kReverify);
  EXPECT_EQ(map.Find(kOtherKey, 0xC000)->trust, PortTrust::kVerified);
  // What moved because the fabric changed is no mismatch.
  EXPECT_TRUE(map.Observe(kKey, 0xC000, Path(1)));
  EXPECT_EQ(map.Find(kKey, 0xC000),
            (PortEntry{.port = 0xC000, .trust = PortTrust::kVerified, .path = Path(1)}));
  EXPECT_TRUE(map.Observe(kKey, 0xC001, Path(2)));
  EXPECT_EQ(map.Find(kKey, 0xC001)->trust, PortTrust::kVerified);
  // From here on it would be one.
  EXPECT_FALSE(map.Observe(kKey, 0xC000, Path(3)));
}

TEST(PathMap, LetsAModelOfTheNewFabricReplaceDoubts) {
  PathMap map;
  map.Observe(kKey, 0xC000, Path(3));
  map.MarkReverify([](const PortKey&) { return true; });
  map.Predict(kKey, 0xC000, Path(1));
  EXPECT_EQ(map.Find(kKey, 0xC000),
            (PortEntry{.port = 0xC000, .trust = PortTrust::kPredicted, .path = Path(1)}));
}

TEST(PathMap, DropsPredictionsButNotWhatWasSeen) {
  PathMap map;
  map.Predict(kKey, 0xC000, Path(0));
  map.Observe(kKey, 0xC001, Path(1));
  map.Predict(kKey, 0xC002, Path(2));
  map.Predict(kOtherKey, 0xC000, Path(0));
  map.DropPredictions(kKey);
  ASSERT_EQ(map.Ports(kKey).size(), 1U);
  EXPECT_EQ(map.Ports(kKey)[0].port, 0xC001);
  map.DropPredictions(kOtherKey);
  EXPECT_EQ(map.KeyCount(), 1U);
  map.Forget(kKey);
  map.Forget(kKey);
  EXPECT_EQ(map.KeyCount(), 0U);
  EXPECT_TRUE(map.Ports(kKey).empty());
}

TEST(PathMap, KnowsThroughAllChangesWhatOnlyAModelSaid) {
  PathMap map;
  map.Predict(kKey, 0xC000, Path(0));
  map.Observe(kKey, 0xC001, Path(1));
  map.MarkReverify([](const PortKey&) { return true; });
  EXPECT_FALSE(map.Find(kKey, 0xC000)->was_seen);
  EXPECT_TRUE(map.Find(kKey, 0xC001)->was_seen);
  map.DropPrediction(kKey, 0xC001);
  EXPECT_TRUE(map.Find(kKey, 0xC001).has_value());
  map.DropPrediction(kKey, 0xC000);
  EXPECT_FALSE(map.Find(kKey, 0xC000).has_value());
  map.Observe(kKey, 0xC000, Path(0));
  EXPECT_TRUE(map.Find(kKey, 0xC000)->was_seen);
}

TEST(PathMap, KeepsPortsSortedWhateverTheOrderOfArrival) {
  PathMap map;
  std::mt19937 random(1);
  std::map<std::uint16_t, int> truth;
  for (int i = 0; i < 5'000; ++i) {
    const auto port = static_cast<std::uint16_t>(kFirstRocePort + random() % kRocePortCount);
    const int path = static_cast<int>(random() % 8);
    map.Observe(kKey, port, Path(path));
    truth[port] = path;
  }
  EXPECT_EQ(map.PortCount(), truth.size());
  auto expected = truth.begin();
  for (const PortEntry& entry : map.Ports(kKey)) {
    EXPECT_EQ(entry.port, expected->first);
    EXPECT_EQ(entry.path, Path(expected->second));
    ++expected;
  }
}

TEST(PortEntry, TakesEightBytes) { EXPECT_EQ(sizeof(PortEntry), 8U); }

TEST(PathMap, TellsKeysApartByEveryField) {
  PathMap map;
  PortKey key = kKey;
  map.Observe(key, 0xC000, Path(0));
  key.protocol = 6;
  map.Observe(key, 0xC000, Path(1));
  key = kKey;
  key.destination_port = 5000;
  map.Observe(key, 0xC000, Path(2));
  key = kKey;
  key.destination_qpn = 77;
  map.Observe(key, 0xC000, Path(3));
  EXPECT_EQ(map.KeyCount(), 4U);
  EXPECT_EQ(map.Find(kKey, 0xC000)->path, Path(0));
}

}  // namespace
}  // namespace espalier::fabric
