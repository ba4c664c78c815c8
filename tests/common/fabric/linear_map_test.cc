#include "common/fabric/ecmp/linear_map.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <random>

#include "common/fabric/ecmp/ecmp_hash.h"

namespace espalier::fabric {
namespace {

using Verdict = LinearPortMap::Verdict;
using Truth = std::function<PathIndex(std::uint16_t port)>;

FlowTuple Tuple(const char* source, const char* destination) {
  FlowTuple tuple;
  tuple.source = *IpAddress::Parse(source);
  tuple.destination = *IpAddress::Parse(destination);
  return tuple;
}

// A switch of `members` uplinks, whose order is an unknown permutation of the paths.
Truth OneSwitch(const EcmpSpec& spec, FlowTuple tuple, std::size_t members, unsigned shuffle) {
  std::vector<int> path_of(members);
  std::iota(path_of.begin(), path_of.end(), 0);
  std::shuffle(path_of.begin(), path_of.end(), std::mt19937(shuffle));
  std::shared_ptr<EcmpHash> hash = *MakeEcmpHash(spec);
  return [=](std::uint16_t port) {
    FlowTuple probe = tuple;
    probe.source_port = port;
    return PathIndex(path_of[hash->Choose(probe, path_of.size())]);
  };
}

std::vector<PortSample> Probe(const Truth& truth, std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<PortSample> samples;
  for (std::size_t i = 0; i < count; ++i) {
    const auto port = static_cast<std::uint16_t>(kFirstRocePort + random() % kRocePortCount);
    samples.push_back({port, truth(port)});
  }
  return samples;
}

std::size_t CountMismatches(const LinearPortMap& map, const Truth& truth) {
  std::size_t mismatches = 0;
  for (unsigned port = kFirstRocePort; port <= 0xFFFF; ++port) {
    const auto p = static_cast<std::uint16_t>(port);
    if (map.Predict(p) != truth(p)) ++mismatches;
  }
  return mismatches;
}

const std::vector<EcmpSpec> kLinearModels = {
    {"crc16-ccitt", 0x1D0F}, {"crc16-bisync", 0xFFFF}, {"crc32", 0xFFFFFFFF}, {"crc32-high", 12345},
    {"xor8", 0x5a},          {"xor16", 0xbeef},        {"toeplitz", 99},
};

TEST(LinearPortMap, IsExactAfterTwoHundredProbes) {
  unsigned seed = 1;
  for (const EcmpSpec& spec : kLinearModels) {
    for (const std::size_t paths : {2U, 4U, 8U, 16U, 32U, 64U}) {
      SCOPED_TRACE(testing::Message() << spec.hash << " paths " << paths << " seed " << ++seed);
      const Truth truth = OneSwitch(spec, Tuple("10.1.2.1", "10.3.0.1"), paths, seed);
      auto samples = Probe(truth, 150, seed);
      auto recognised = LinearPortMap::Recognise(samples, paths);
      ASSERT_EQ(recognised.verdict, Verdict::kLinear);
      for (const std::uint16_t port : recognised.map->PortsToProbe()) {
        samples.push_back({port, truth(port)});
      }
      ASSERT_LE(samples.size(), 200U);
      recognised = LinearPortMap::Recognise(samples, paths);
      ASSERT_EQ(recognised.verdict, Verdict::kLinear);
      EXPECT_TRUE(recognised.map->PortsToProbe().empty());
      EXPECT_EQ(CountMismatches(*recognised.map, truth), 0U);
    }
  }
}

TEST(LinearPortMap, PredictsOtherKeysOfTheLeafPairFromOneProbe) {
  unsigned seed = 100;
  for (const EcmpSpec& spec : kLinearModels) {
    SCOPED_TRACE(spec.hash);
    const Truth first = OneSwitch(spec, Tuple("10.1.2.1", "10.3.0.1"), 8, 5);
    const auto recognised = LinearPortMap::Recognise(Probe(first, 200, ++seed), 8);
    ASSERT_EQ(recognised.verdict, Verdict::kLinear);
    FlowTuple other = Tuple("10.1.7.1", "10.3.5.1");
    other.destination_port = 4792;
    for (int key = 0; key < 10; ++key) {
      const Truth truth = OneSwitch(spec, other, 8, 5);
      const auto map = recognised.map->ForKeyOf(Probe(truth, 1, ++seed).front());
      ASSERT_TRUE(map.has_value());
      EXPECT_EQ(CountMismatches(*map, truth), 0U);
      other.source = IpAddress::FromV4(other.source.V4() + 0x100);
    }
  }
}

TEST(LinearPortMap, SeesThroughTwoTiersOfSwitches) {
  const FlowTuple tuple = Tuple("10.1.2.1", "10.3.0.1");
  const Truth leaf = OneSwitch({"crc32", 7}, tuple, 4, 1);
  const Truth aggregation = OneSwitch({"crc16-ccitt", 9}, tuple, 4, 2);
  const Truth both = [&](std::uint16_t port) {
    return PathIndex(leaf(port).value() * 4 + aggregation(port).value());
  };
  const auto recognised = LinearPortMap::Recognise(Probe(both, 200, 1), 16);
  ASSERT_EQ(recognised.verdict, Verdict::kLinear);
  EXPECT_EQ(CountMismatches(*recognised.map, both), 0U);
}

TEST(LinearPortMap, KnowsPolarisedFabricsWhereSomePathsAreNeverTaken) {
  const Truth leaf = OneSwitch({"crc32", 7}, Tuple("10.1.2.1", "10.3.0.1"), 4, 1);
  const Truth both = [&](std::uint16_t port) { return PathIndex(leaf(port).value() * 5); };
  const auto recognised = LinearPortMap::Recognise(Probe(both, 200, 1), 16);
  ASSERT_EQ(recognised.verdict, Verdict::kLinear);
  EXPECT_EQ(CountMismatches(*recognised.map, both), 0U);
  // A port on a path that the map never uses does not belong to this map.
  EXPECT_FALSE(recognised.map->ForKeyOf({0xC000, PathIndex(1)}).has_value());
}

TEST(LinearPortMap, IsNotTakenInByOtherHashes) {
  const FlowTuple tuple = Tuple("10.1.2.1", "10.3.0.1");
  for (unsigned seed = 1; seed <= 50; ++seed) {
    for (const std::size_t paths : {2U, 3U, 4U, 8U, 12U, 64U}) {
      for (const char* hash : {"linux", "jenkins"}) {
        const Truth truth = OneSwitch({hash, seed}, tuple, paths, seed);
        EXPECT_EQ(LinearPortMap::Recognise(Probe(truth, 200, seed), paths).verdict,
                  Verdict::kNotLinear)
            << hash << " paths " << paths << " seed " << seed;
      }
    }
    for (const std::size_t paths : {3U, 5U, 6U, 12U}) {
      const Truth truth = OneSwitch({"crc32", seed}, tuple, paths, seed);
      EXPECT_EQ(LinearPortMap::Recognise(Probe(truth, 200, seed), paths).verdict,
                Verdict::kNotLinear)
          << "crc32 paths " << paths << " seed " << seed;
    }
  }
}

TEST(LinearPortMap, IsUndecidedOnFewSamples) {
  const Truth truth = OneSwitch({"crc32", 1}, Tuple("10.1.2.1", "10.3.0.1"), 8, 1);
  EXPECT_EQ(LinearPortMap::Recognise({}, 8).verdict, Verdict::kUndecided);
  EXPECT_EQ(LinearPortMap::Recognise(Probe(truth, 12, 1), 8).verdict, Verdict::kUndecided);
  // Repeating the same port gives no information.
  const std::vector<PortSample> repeated(500, PortSample{0xC123, PathIndex(2)});
  EXPECT_EQ(LinearPortMap::Recognise(repeated, 8).verdict, Verdict::kUndecided);
}

TEST(LinearPortMap, RefusesOneWrongSample) {
  const Truth truth = OneSwitch({"crc32", 1}, Tuple("10.1.2.1", "10.3.0.1"), 8, 1);
  for (unsigned seed = 1; seed <= 20; ++seed) {
    auto samples = Probe(truth, 200, seed);
    auto& wrong = samples[std::size_t{seed} * 7];
    wrong.path = PathIndex((wrong.path.value() + 1) % 8);
    EXPECT_EQ(LinearPortMap::Recognise(samples, 8).verdict, Verdict::kNotLinear) << seed;
  }
  auto samples = Probe(truth, 200, 1);
  samples.push_back({samples[0].port, PathIndex((samples[0].path.value() + 1) % 8)});
  EXPECT_EQ(LinearPortMap::Recognise(samples, 8).verdict, Verdict::kNotLinear);
}

TEST(LinearPortMap, KnowsThatAPortWithoutInfluenceLeadsToOnePath) {
  const Truth truth = [](std::uint16_t) { return PathIndex(3); };
  const auto recognised = LinearPortMap::Recognise(Probe(truth, 200, 1), 8);
  ASSERT_EQ(recognised.verdict, Verdict::kLinear);
  EXPECT_EQ(CountMismatches(*recognised.map, truth), 0U);
}

}  // namespace
}  // namespace espalier::fabric
