// Return paths of TCP ports, by linear hashes that probes from far ends have shown.
#include "controller/paths/models/linear_returns.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "common/fabric/ecmp/ecmp_hash.h"

namespace espalier::controller {
namespace {

using fabric::NodeId;
using fabric::PathIndex;
using fabric::PortKey;

constexpr std::uint16_t kServerPort = 5'201;

// Connections of hosts under one leaf to a server's port at hosts under another one, whose uplinks
// have an order that nobody knows.
class LinearReturnsTest : public testing::Test {
 protected:
  void SetUp() override { Use({"crc32", 7}, 4); }
  void Use(const fabric::EcmpSpec& spec, std::size_t paths) {
    hash_ = *fabric::MakeEcmpHash(spec);
    spine_of_.resize(paths);
    std::iota(spine_of_.begin(), spine_of_.end(), 0);
    std::ranges::shuffle(spine_of_, random_);
    returns_ = {};
  }
  static PortKey Key(int client, int server) {
    return {.source = NodeId(client),
            .destination = NodeId(100 + server),
            .destination_port = kServerPort};
  }
  PathIndex Truth(const PortKey& key, std::uint16_t port) const {
    const auto address = [](NodeId node) {
      return IpAddress::FromV4(0x0A00'0001U + (static_cast<std::uint32_t>(node.value()) << 8U));
    };
    const fabric::FlowTuple back{.source = address(key.destination),
                                 .destination = address(key.source),
                                 .source_port = key.destination_port,
                                 .destination_port = port};
    return PathIndex(spine_of_[hash_->Choose(back, spine_of_.size())]);
  }
  std::uint16_t DrawPort() {
    return static_cast<std::uint16_t>(fabric::kFirstRocePort + random_() % fabric::kRocePortCount);
  }
  void See(const PortKey& key, int ports) {
    for (int i = 0; i < ports; ++i) {
      const std::uint16_t port = DrawPort();
      returns_.Add(key, {port, Truth(key, port)}, spine_of_.size());
    }
  }
  // As the controller sees them: a few ports of each of these keys.
  void SeeKeys(int keys, int ports_of_each) {
    for (int i = 0; i < keys; ++i) See(Key(i / 8, i % 8), ports_of_each);
  }
  // How many of 1,000 ports are predicted, all of them rightly.
  int CountPredicted(const PortKey& key) {
    int predicted = 0;
    for (int i = 0; i < 1'000; ++i) {
      const std::uint16_t port = DrawPort();
      const auto path = returns_.Predict(key, port);
      if (!path) continue;
      EXPECT_EQ(*path, Truth(key, port)) << port;
      ++predicted;
    }
    return predicted;
  }

  std::mt19937 random_{5};
  std::unique_ptr<fabric::EcmpHash> hash_;
  std::vector<int> spine_of_;
  LinearReturns returns_;
};

TEST_F(LinearReturnsTest, AreKnownForAllPortsAfterAFewOfEachKey) {
  for (const char* const hash : {"crc16-ccitt", "crc32", "crc32-high", "xor16", "toeplitz"}) {
    for (const std::size_t paths : {2U, 4U, 16U}) {
      SCOPED_TRACE(testing::Message() << hash << " over " << paths);
      Use({hash, 77}, paths);
      SeeKeys(20, static_cast<int>(2 * paths + 2));
      EXPECT_EQ(CountPredicted(Key(0, 0)), 1'000);
      // One probe is enough for another key.
      const PortKey other = Key(40, 41);
      EXPECT_EQ(CountPredicted(other), 0);
      See(other, 1);
      EXPECT_EQ(CountPredicted(other), 1'000);
    }
  }
}

TEST_F(LinearReturnsTest, OfOtherHashesAreNotPredicted) {
  for (const char* const hash : {"linux", "jenkins"}) {
    for (std::uint32_t seed = 1; seed <= 20; ++seed) {
      for (const std::size_t paths : {2U, 3U, 4U, 8U}) {
        Use({hash, seed}, paths);
        SeeKeys(60, 10);
        EXPECT_FALSE(returns_.Predict(Key(0, 0), DrawPort())) << hash << " " << seed;
      }
    }
  }
}

TEST_F(LinearReturnsTest, OverAGroupThatIsNoPowerOfTwoAreNotPredicted) {
  Use({"crc32", 7}, 3);
  SeeKeys(60, 10);
  EXPECT_FALSE(returns_.Predict(Key(0, 0), DrawPort()));
}

// The ports of the other paths may be silent.
TEST_F(LinearReturnsTest, ThatWereAllSeenOnOnePathAreNotPredicted) {
  for (int i = 0; i < 200; ++i) returns_.Add(Key(0, i % 8), {DrawPort(), PathIndex(1)}, 4);
  EXPECT_FALSE(returns_.Predict(Key(0, 0), DrawPort()));
}

TEST_F(LinearReturnsTest, EndWithTheFirstPortThatComesBackElsewhere) {
  SeeKeys(20, 10);
  ASSERT_EQ(CountPredicted(Key(1, 1)), 1'000);
  const std::uint16_t port = DrawPort();
  returns_.Add(Key(1, 1), {port, PathIndex((Truth(Key(1, 1), port).value() + 1) % 4)}, 4);
  EXPECT_EQ(CountPredicted(Key(1, 1)), 0);
  SeeKeys(20, 10);
  EXPECT_EQ(CountPredicted(Key(1, 1)), 0) << "until the fabric changes";
}

TEST_F(LinearReturnsTest, OfAForgottenKeyNeedAnotherProbe) {
  SeeKeys(20, 10);
  returns_.Forget(Key(1, 1));
  EXPECT_EQ(CountPredicted(Key(1, 1)), 0);
  See(Key(1, 1), 1);
  EXPECT_EQ(CountPredicted(Key(1, 1)), 1'000);
}

TEST_F(LinearReturnsTest, OfPortsBelowThoseOfRoceAreNotPredicted) {
  SeeKeys(20, 10);
  returns_.Add(Key(1, 1), {40'000, PathIndex(0)}, 4);
  EXPECT_FALSE(returns_.Predict(Key(1, 1), 40'000));
  EXPECT_EQ(CountPredicted(Key(1, 1)), 1'000);
}

}  // namespace
}  // namespace espalier::controller
