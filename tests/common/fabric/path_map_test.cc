#include "common/fabric/ecmp/path_map.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <vector>

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
  EXPECT_EQ(map.Find(kKey, 0xC001), (PortEntry{.port = 0xC001,
                                               .trust = PortTrust::kVerified,
                                               .origin = PortOrigin::kConfirmed,
                                               .path = Path(2)}));
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
  // A port that moved because the fabric changed is not a mismatch.
  EXPECT_TRUE(map.Observe(kKey, 0xC000, Path(1)));
  EXPECT_EQ(map.Find(kKey, 0xC000),
            (PortEntry{.port = 0xC000, .trust = PortTrust::kVerified, .path = Path(1)}));
  EXPECT_TRUE(map.Observe(kKey, 0xC001, Path(2)));
  EXPECT_EQ(map.Find(kKey, 0xC001)->trust, PortTrust::kVerified);
  // From here on a move would be one.
  EXPECT_FALSE(map.Observe(kKey, 0xC000, Path(3)));
}

// Marks are applied when a key is used, with the same result as if they were applied at once.
TEST(PathMap, DoubtsTheSameHoweverLateAKeyIsAskedFor) {
  std::mt19937 random(1);
  PathMap late;
  PathMap at_once;
  const auto key = [](std::uint32_t number) {
    return PortKey{.source = NodeId(static_cast<int>(number)), .destination = NodeId(99)};
  };
  for (int step = 0; step < 3'000; ++step) {
    const PortKey one = key(random() % 16);
    const auto port = static_cast<std::uint16_t>(0xC000 + random() % 4);
    const PathIndex path = Path(static_cast<int>(random() % 3));
    switch (random() % 6) {
      case 0: {
        const auto odd = static_cast<std::int32_t>(random() % 2);
        const auto affected = [odd](const PortKey& of) { return of.source.value() % 2 == odd; };
        late.MarkReverify(affected);
        at_once.MarkReverify(affected);
        for (std::uint32_t i = 0; i < 16; ++i) at_once.Ports(key(i));
        break;
      }
      case 1:
        late.Predict(one, port, path);
        at_once.Predict(one, port, path);
        break;
      case 2:
        late.DropPredictions(one);
        at_once.DropPredictions(one);
        break;
      case 3:
        late.DropPrediction(one, port);
        at_once.DropPrediction(one, port);
        break;
      default:
        EXPECT_EQ(late.Observe(one, port, path), at_once.Observe(one, port, path));
    }
    EXPECT_EQ(late.retractions(), at_once.retractions());
    if (step % 100 != 0) continue;
    std::map<PortKey, std::vector<PortEntry>> all;
    for (std::size_t place = 0; place < late.PlaceCount(); ++place) {
      late.ForEachKeyAt(place, [&](const PortKey& of, const auto& entries) {
        EXPECT_TRUE(all.emplace(of, entries).second);
      });
    }
    EXPECT_EQ(all.size(), at_once.KeyCount());
    for (const auto& [of, entries] : all) {
      EXPECT_EQ(late.Ports(of), entries);
      EXPECT_EQ(at_once.Ports(of), entries);
    }
  }
}

TEST(PathMap, CountsWhatItTakesBack) {
  PathMap map;
  map.Observe(kKey, 0xC000, Path(3));
  map.Observe(kKey, 0xC000, Path(3));
  map.Predict(kKey, 0xC000, Path(1));  // the verified path stays
  map.Predict(kKey, 0xC001, Path(1));
  map.MarkReverify([](const PortKey&) { return true; });
  map.Forget(kOtherKey);
  EXPECT_EQ(map.retractions(), 1U);
  map.Observe(kKey, 0xC000, Path(2));
  EXPECT_EQ(map.retractions(), 2U);
  map.Predict(kKey, 0xC001, Path(2));
  EXPECT_EQ(map.retractions(), 3U);
  map.DropPrediction(kKey, 0xC000);  // is verified
  EXPECT_EQ(map.retractions(), 3U);
  map.DropPrediction(kKey, 0xC001);
  EXPECT_EQ(map.retractions(), 4U);
  map.Predict(kKey, 0xC002, Path(0));
  map.DropPredictions(kKey);
  EXPECT_EQ(map.retractions(), 5U);
  map.Forget(kKey);
  EXPECT_EQ(map.retractions(), 6U);
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
  EXPECT_EQ(map.Find(kKey, 0xC000)->origin, PortOrigin::kPredicted);
  EXPECT_EQ(map.Find(kKey, 0xC001)->origin, PortOrigin::kSampled);
  map.DropPrediction(kKey, 0xC001);
  EXPECT_TRUE(map.Find(kKey, 0xC001).has_value());
  map.DropPrediction(kKey, 0xC000);
  EXPECT_FALSE(map.Find(kKey, 0xC000).has_value());
  map.Observe(kKey, 0xC000, Path(0));
  EXPECT_EQ(map.Find(kKey, 0xC000)->origin, PortOrigin::kSampled);
}

TEST(PathMap, TellsPortsThatWereChosenForTheirPathFromOthers) {
  PathMap map;
  map.Predict(kKey, 0xC000, Path(0));
  map.Observe(kKey, 0xC000, Path(0));
  map.Observe(kKey, 0xC001, Path(1));
  for (int fabric = 0; fabric < 2; ++fabric) {
    EXPECT_EQ(map.Find(kKey, 0xC000)->origin, PortOrigin::kConfirmed);
    EXPECT_EQ(map.Find(kKey, 0xC001)->origin, PortOrigin::kSampled);
    map.MarkReverify([](const PortKey&) { return true; });
    map.Observe(kKey, 0xC000, Path(2));
    map.Observe(kKey, 0xC001, Path(2));
  }
}

TEST(PathMap, ForgetsThatPathsHaveNoPortsWhenThatMayBeWrong) {
  PathMap map;
  const auto predict = [&] { map.PredictNone(kKey, {Path(3), Path(1)}); };
  predict();
  EXPECT_THAT(map.PathsWithoutPorts(kKey), testing::ElementsAre(Path(1), Path(3)));
  EXPECT_TRUE(map.PathsWithoutPorts(kOtherKey).empty());
  map.Observe(kKey, 0xC000, Path(3));
  EXPECT_THAT(map.PathsWithoutPorts(kKey), testing::ElementsAre(Path(1)));
  map.MarkReverify([](const PortKey& key) { return key == kOtherKey; });
  EXPECT_FALSE(map.PathsWithoutPorts(kKey).empty());
  map.MarkReverify([](const PortKey& key) { return key == kKey; });
  EXPECT_TRUE(map.PathsWithoutPorts(kKey).empty()) << "the fabric has changed";
  predict();
  map.DropPredictions(kKey);
  EXPECT_TRUE(map.PathsWithoutPorts(kKey).empty()) << "the model is wrong";
  predict();
  map.Forget(kKey);
  EXPECT_TRUE(map.PathsWithoutPorts(kKey).empty());
}

TEST(PathMap, NotesSilentPortsUntilTheyAreSeenOrTheFabricChanges) {
  PathMap map;
  for (const int port : {5, 1, 5, 3}) {
    map.NoteSilence(kKey, static_cast<std::uint16_t>(0xC000 + port));
  }
  EXPECT_THAT(map.SilentPorts(kKey), testing::ElementsAre(0xC001, 0xC003, 0xC005));
  EXPECT_TRUE(map.SilentPorts(kOtherKey).empty());
  map.Observe(kKey, 0xC003, Path(1));
  map.NoteSilence(kKey, 0xC003);
  EXPECT_THAT(map.SilentPorts(kKey), testing::ElementsAre(0xC001, 0xC005)) << "it is known";
  map.Predict(kKey, 0xC007, Path(1));
  map.DropPredictions(kKey);
  map.MarkReverify([](const PortKey& key) { return key == kOtherKey; });
  EXPECT_EQ(map.SilentPorts(kKey).size(), 2U) << "in another part of the fabric";
  map.MarkReverify([](const PortKey& key) { return key == kKey; });
  EXPECT_TRUE(map.SilentPorts(kKey).empty());
  map.NoteSilence(kKey, 0xC003);
  EXPECT_THAT(map.SilentPorts(kKey), testing::ElementsAre(0xC003)) << "seen in another fabric";
  map.Forget(kKey);
  EXPECT_TRUE(map.SilentPorts(kKey).empty());
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
