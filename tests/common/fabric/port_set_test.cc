#include "common/fabric/ecmp/port_set.h"

#include <gtest/gtest.h>

#include <bit>
#include <random>
#include <set>

namespace espalier::fabric {
namespace {

// Small and large, as a set of the standard library.
TEST(PortSet, HoldsWhatWasInsertedAndNotErased) {
  std::mt19937 random(3);
  for (const std::uint32_t range : {20U, 65'536U}) {
    PortSet set;
    std::set<std::uint16_t> expected;
    for (int step = 0; step < 5'000; ++step) {
      const auto port = static_cast<std::uint16_t>(65'535 - random() % range);
      if (random() % 3 == 0) {
        set.Erase(port);
        expected.erase(port);
      } else {
        EXPECT_EQ(set.Insert(port), expected.insert(port).second);
      }
      ASSERT_EQ(set.size(), expected.size());
      ASSERT_EQ(set.Contains(port), expected.contains(port));
    }
    std::size_t roce = 0;
    for (std::size_t n = 0; n < kRocePortCount / 64; ++n) {
      roce += static_cast<std::size_t>(std::popcount(set.RoceWord(n)));
    }
    EXPECT_EQ(roce, std::distance(expected.lower_bound(kFirstRocePort), expected.end()));
    for (const std::uint16_t port : expected) EXPECT_TRUE(set.Contains(port));
  }
}

TEST(PortSet, ShowsPortsAsBitsOfWords) {
  PortSet set;
  set.Insert(kFirstRocePort + 65);
  set.Insert(80);
  EXPECT_EQ(set.RoceWord(0), 0U);
  EXPECT_EQ(set.RoceWord(1), 2U);
  for (std::uint16_t port = 100; port < 200; ++port) set.Insert(port);
  EXPECT_EQ(set.RoceWord(1), 2U) << "with a bit for each port";
  EXPECT_FALSE(set.empty());
}

}  // namespace
}  // namespace espalier::fabric
