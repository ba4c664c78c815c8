#include "controller/paths/port_chooser.h"

#include <gtest/gtest.h>

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
