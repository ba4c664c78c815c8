#include "controller/paths/port_chooser.h"

#include <gtest/gtest.h>

#include <optional>
#include <random>

namespace espalier::controller {
namespace {

using fabric::NodeId;
using fabric::PathIndex;
using fabric::PathMap;
using fabric::PortKey;

const PortKey kKey{.source = NodeId(1), .destination = NodeId(2)};
const PathIndex kWanted(3);

std::optional<std::uint16_t> Port(const std::optional<fabric::PortEntry>& entry) {
  if (!entry) return std::nullopt;
  return entry->port;
}

TEST(ChoosePort, TakesTheLowestFreeVerifiedPortOfThePath) {
  PathMap map;
  PortsInUse in_use;
  map.Observe(kKey, 50'000, PathIndex(0));
  map.Predict(kKey, 49'999, kWanted);
  map.Observe(kKey, 50'002, kWanted);
  map.Observe(kKey, 50'001, kWanted);
  EXPECT_EQ(Port(ChoosePort(map, kKey, kWanted, in_use, PortNeed::kSure, 0)), 50'001);
  EXPECT_TRUE(in_use.Take(kKey, 50'001));
  EXPECT_EQ(Port(ChoosePort(map, kKey, kWanted, in_use, PortNeed::kSure, 0)), 50'002);
  EXPECT_TRUE(in_use.Take(kKey, 50'002));
  EXPECT_EQ(Port(ChoosePort(map, kKey, kWanted, in_use, PortNeed::kSure, 0)), 49'999);
  EXPECT_TRUE(in_use.Take(kKey, 49'999));
  EXPECT_EQ(ChoosePort(map, kKey, kWanted, in_use, PortNeed::kSure, 0), std::nullopt);
}

TEST(ChoosePort, KeepsThePortThatTakesThePathAlready) {
  PathMap map;
  map.Observe(kKey, 50'001, kWanted);
  map.Observe(kKey, 50'007, kWanted);
  EXPECT_EQ(Port(ChoosePort(map, kKey, kWanted, PortsInUse(), PortNeed::kSure, 50'007)), 50'007);
}

TEST(ChoosePort, UsesPortsToReverifyOnlyIfUrgent) {
  PathMap map;
  map.Observe(kKey, 50'001, kWanted);
  map.MarkReverify([](const PortKey&) { return true; });
  EXPECT_EQ(ChoosePort(map, kKey, kWanted, PortsInUse(), PortNeed::kSure, 50'001), std::nullopt);
  EXPECT_EQ(Port(ChoosePort(map, kKey, kWanted, PortsInUse(), PortNeed::kUrgent, 0)), 50'001);
}

// With and without an index of the known ports, and with what was remembered.
TEST(ChoosePort, FindsTheSameAmongManyPortsAsAmongAll) {
  std::mt19937 random(7);
  PathMap map;
  PortsInUse in_use;
  const auto any_port = [&] { return static_cast<std::uint16_t>(0xC000 + random() % 1'024); };
  for (int step = 0; step < 20'000; ++step) {
    const std::uint16_t port = any_port();
    const PathIndex path(static_cast<std::int32_t>(random() % 3));
    switch (random() % 16) {
      case 0:
        map.Observe(kKey, port, path);
        break;
      case 1:
        if (random() % 256 == 0) map.MarkReverify([](const PortKey&) { return true; });
        if (random() % 256 == 0) map.DropPredictions(kKey);
        break;
      case 2:
        map.DropPrediction(kKey, port);
        break;
      case 3:
      case 4:
        in_use.Release(kKey, port);
        break;
      case 5:
        in_use.Exchange(kKey, port, any_port());
        break;
      case 6:
      case 7:
      case 8:
        in_use.Take(kKey, port);
        break;
      default:
        map.Predict(kKey, port, path);
    }
    const auto need = random() % 2 == 0 ? PortNeed::kSure : PortNeed::kUrgent;
    const std::uint16_t current = random() % 4 == 0 ? any_port() : std::uint16_t{0};
    std::optional<fabric::PortEntry> best;
    const auto rank = [&](const fabric::PortEntry& entry) {
      if (entry.port == current && entry.trust != fabric::PortTrust::kReverify) return 0;
      return entry.trust == fabric::PortTrust::kVerified    ? 1
             : entry.trust == fabric::PortTrust::kPredicted ? 2
                                                            : 3;
    };
    for (const fabric::PortEntry& entry : map.Ports(kKey)) {
      if (entry.path != path || in_use.IsTaken(kKey, entry.port)) continue;
      if (need == PortNeed::kSure && entry.trust == fabric::PortTrust::kReverify) continue;
      if (!best || rank(entry) < rank(*best)) best = entry;
    }
    const auto chosen = ChoosePort(map, kKey, path, in_use, need, current);
    ASSERT_EQ(chosen.has_value(), best.has_value()) << step;
    if (!best) continue;
    EXPECT_EQ(rank(*chosen), rank(*best)) << step;
    EXPECT_EQ(chosen->port, best->port) << step;
  }
}

TEST(PortsInUse, AreOfOneKey) {
  PortsInUse in_use;
  PortKey other = kKey;
  other.destination = NodeId(7);
  EXPECT_TRUE(in_use.Take(kKey, 50'000));
  EXPECT_FALSE(in_use.Take(kKey, 50'000));
  EXPECT_TRUE(in_use.Take(other, 50'000));
  in_use.Release(kKey, 50'000);
  EXPECT_FALSE(in_use.IsTaken(kKey, 50'000));
  EXPECT_TRUE(in_use.IsTaken(other, 50'000));
}

TEST(PortsInUse, AreExchangedUnlessTaken) {
  PortsInUse in_use;
  EXPECT_TRUE(in_use.Exchange(kKey, 0, 50'000));
  EXPECT_TRUE(in_use.Exchange(kKey, 50'000, 50'001));
  EXPECT_FALSE(in_use.IsTaken(kKey, 50'000));
  EXPECT_TRUE(in_use.IsTaken(kKey, 50'001));
  EXPECT_TRUE(in_use.Take(kKey, 50'002));
  EXPECT_FALSE(in_use.Exchange(kKey, 50'001, 50'002));  // another's
  EXPECT_FALSE(in_use.Exchange(kKey, 50'001, 50'001));  // its own
  EXPECT_TRUE(in_use.IsTaken(kKey, 50'001));
  in_use.Release(kKey, 50'001);
  in_use.Release(kKey, 50'002);
  EXPECT_TRUE(in_use.Take(kKey, 50'001));
}

}  // namespace
}  // namespace espalier::controller
