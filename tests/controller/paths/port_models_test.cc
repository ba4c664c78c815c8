// Predicted paths of ports, by hashes of the topology file or recognised in probe results.
#include "controller/paths/models/port_models.h"

#include <gtest/gtest.h>

#include <optional>
#include <random>
#include <string>
#include <vector>

#include "common/fabric/builders.h"
#include "controller/paths/models/return_key.h"

namespace espalier::controller {
namespace {

using fabric::PathIndex;
using fabric::PortKey;

class Models : public testing::Test {
 protected:
  explicit Models(const std::optional<fabric::EcmpSpec>& hash = std::nullopt)
      : topology_(Make(hash)) {}

  static fabric::Topology Make(const std::optional<fabric::EcmpSpec>& hash) {
    fabric::TopologySpec spec =
        *fabric::BuildLeafSpine({.spines = 4, .leaves = 3, .hosts_per_leaf = 2});
    for (fabric::Node& node : spec.nodes) {
      if (node.role == fabric::SwitchRole::kLeaf) node.ecmp = hash;
    }
    return *fabric::Topology::Build(spec);
  }
  PortKey Key(const std::string& from, const std::string& to) const {
    return {.source = *topology_.FindNode(from), .destination = *topology_.FindNode(to)};
  }
  // A hash that is linear in the bits of the port; `constant` differs by pair of hosts.
  static PathIndex Truth(std::uint16_t port, int constant) {
    return PathIndex((constant ^ port ^ (port >> 3) ^ (port >> 7)) & 3);
  }
  // Adds this many verified ports of this key.
  void See(const PortKey& key, int constant, int ports) {
    std::mt19937 random(1);
    for (int i = 0; i < ports; ++i) {
      const auto port =
          static_cast<std::uint16_t>(fabric::kFirstRocePort + random() % fabric::kRocePortCount);
      map_.Observe(key, port, Truth(port, constant));
    }
    models_.Learn(key);
  }
  std::optional<PathIndex> Predict(const PortKey& key, std::uint16_t port) {
    const auto model = models_.ModelOf(key);
    return model ? model->Predict(port) : std::nullopt;
  }
  int CountPredicted(const PortKey& key, int constant) {
    int predicted = 0;
    for (std::uint16_t i = 0; i < 100; ++i) {
      const auto port = static_cast<std::uint16_t>(0xF000 + i);
      const auto path = Predict(key, port);
      if (!path) continue;
      EXPECT_EQ(*path, Truth(port, constant)) << port;
      ++predicted;
    }
    return predicted;
  }

  fabric::Topology topology_;
  fabric::PathTable paths_{topology_};
  fabric::PathMap map_;
  PortModels models_{topology_, paths_, map_};
};

TEST_F(Models, WithoutAHashOrSamplesNothingIsPredicted) {
  EXPECT_EQ(Predict(Key("h0", "h2"), 0xC000), std::nullopt);
  EXPECT_TRUE(models_.WantsSamples(Key("h0", "h2")));
}

TEST_F(Models, ALinearHashIsRecognisedInProbeResults) {
  const PortKey key = Key("h0", "h2");
  See(key, 1, 100);
  EXPECT_EQ(CountPredicted(key, 1), 100);
  EXPECT_FALSE(models_.WantsSamples(key));
}

TEST_F(Models, OneSampleShiftsItToAnotherPairUnderTheSameLeaves) {
  See(Key("h0", "h2"), 1, 100);
  const PortKey other = Key("h1", "h3");
  EXPECT_EQ(CountPredicted(other, 2), 0);
  map_.Observe(other, 0xC123, Truth(0xC123, 2));
  EXPECT_EQ(CountPredicted(other, 2), 100);
  const PortKey elsewhere = Key("h0", "h4");
  map_.Observe(elsewhere, 0xC123, Truth(0xC123, 2));
  EXPECT_EQ(CountPredicted(elsewhere, 2), 0);
}

TEST_F(Models, SamplesOneKeyPerPairOfLeaves) {
  EXPECT_TRUE(models_.WantsSamples(Key("h0", "h2")));
  EXPECT_FALSE(models_.WantsSamples(Key("h1", "h3")));
  EXPECT_TRUE(models_.WantsSamples(Key("h0", "h4")));
  models_.Forget(Key("h0", "h2"));
  EXPECT_TRUE(models_.WantsSamples(Key("h1", "h3")));
}

// One host may answer falsely.
TEST_F(Models, AHostContradictsAModelForItsOwnPortsOnly) {
  const PortKey key = Key("h0", "h2");
  See(key, 1, 100);
  const PortKey other = Key("h1", "h3");
  See(other, 2, 1);
  models_.Distrust(other);
  EXPECT_EQ(CountPredicted(key, 1), 100);
  EXPECT_EQ(CountPredicted(other, 2), 0);
  models_.Distrust(other);  // again, for another port
  EXPECT_EQ(CountPredicted(key, 1), 100);
}

TEST_F(Models, AModelThatTwoHostsContradictIsNotUsedUntilTheFabricChanges) {
  const PortKey key = Key("h0", "h2");
  See(key, 1, 100);
  models_.Distrust(Key("h1", "h3"));  // of the same leaves
  models_.Distrust(key);
  EXPECT_EQ(CountPredicted(key, 1), 0);
  models_.Learn(key);
  EXPECT_EQ(CountPredicted(key, 1), 0);
  models_.HandleFabricChange();
  models_.Learn(key);
  EXPECT_EQ(CountPredicted(key, 1), 100);
}

TEST_F(Models, AHashThatIsNotLinearGivesNoModel) {
  const PortKey key = Key("h0", "h2");
  for (std::uint16_t i = 0; i < 300; ++i) {
    const auto port = static_cast<std::uint16_t>(0xC000 + i);
    map_.Observe(key, port, PathIndex(port * 40'503U % 65'521U % 7 % 4));
  }
  models_.Learn(key);
  EXPECT_EQ(Predict(key, 0xF000), std::nullopt);
  EXPECT_FALSE(models_.WantsSamples(key));
}

TEST_F(Models, PredictNothingWithinALeafOrForUnknownNics) {
  EXPECT_EQ(Predict(Key("h0", "h1"), 0xC000), std::nullopt);
  EXPECT_FALSE(models_.WantsSamples(Key("h0", "h1")));
  EXPECT_FALSE(models_.WantsSamples(Key("h0", "spine0")));
  models_.Distrust(Key("h0", "spine0"));
  models_.Forget(Key("h0", "spine0"));
}

TEST_F(Models, AListenersAnswersTellTheReturnsOfPortsThatWereNotProbed) {
  constexpr std::uint16_t kListener = 5'201;
  std::vector<PortKey> keys = {Key("h0", "h2"), Key("h1", "h3")};
  for (PortKey& key : keys) key.destination_port = kListener;
  const auto see = [&](std::uint16_t listener) {
    std::mt19937 random(3);
    for (int i = 0; i < 60; ++i) {
      const auto port =
          static_cast<std::uint16_t>(fabric::kFirstRocePort + random() % fabric::kRocePortCount);
      const int constant = i % 2;
      const PortKey back = ReturnKeyOf(keys[static_cast<std::size_t>(constant)], port);
      models_.LearnReturn(back, listener, Truth(port, constant));
    }
  };
  see(0xD000);
  EXPECT_FALSE(models_.PredictReturn(keys[0], 0xC123).path) << "not a listener's port";
  see(kListener);
  for (const int constant : {0, 1}) {
    const auto back = models_.PredictReturn(keys[static_cast<std::size_t>(constant)], 0xC123);
    EXPECT_EQ(back.path, Truth(0xC123, constant));
    EXPECT_TRUE(back.is_learned);
    EXPECT_FALSE(back.is_lost);
  }
  models_.Forget(keys[0]);
  EXPECT_FALSE(models_.PredictReturn(keys[0], 0xC123).path);
  EXPECT_TRUE(models_.PredictReturn(keys[1], 0xC123).path);
  models_.HandleFabricChange();
  EXPECT_FALSE(models_.PredictReturn(keys[1], 0xC123).path);
}

class NamedHash : public Models {
 protected:
  NamedHash() : Models(fabric::EcmpSpec{.hash = "crc32", .seed = 7}) {}
};

TEST_F(NamedHash, TheHashOfTheFileNeedsNoSample) {
  const PortKey key = Key("h0", "h2");
  ASSERT_TRUE(Predict(key, 0xC000));
  models_.Distrust(key);
  EXPECT_EQ(Predict(key, 0xC000), std::nullopt);
  EXPECT_TRUE(Predict(Key("h0", "h4"), 0xC000));  // of other leaves
  models_.HandleFabricChange();
  EXPECT_TRUE(Predict(key, 0xC000));
}

}  // namespace
}  // namespace espalier::controller
