#include "collective/transport/hosts/host_map.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "collective/transport/stores/file_store.h"
#include "tests/temporary_folder.h"

namespace espalier::transport {
namespace {

Deadline In(std::chrono::milliseconds time) { return std::chrono::steady_clock::now() + time; }

TEST(HostMap, NumbersHostsByTheirFirstRank) {
  const HostMap map = MapHosts({"b", "b", "a", "a"});
  EXPECT_EQ(map.host_of, (std::vector<int>{0, 0, 1, 1}));
  EXPECT_EQ(map.CountHosts(), 2);
  EXPECT_EQ(map.RanksOf(1), (std::vector<int>{2, 3}));
  EXPECT_EQ(map.RanksPerHost(), 2);
}

TEST(HostMap, HasNoRanksPerHostWhereHostsDifferOrRanksAreMixed) {
  EXPECT_EQ(MapHosts({"a", "a", "b"}).RanksPerHost(), 0);
  EXPECT_EQ(MapHosts({"a", "b", "a", "b"}).RanksPerHost(), 0);
  EXPECT_EQ(MapHosts({"a", "b", "b", "a"}).RanksPerHost(), 0);
  EXPECT_EQ(MapHosts({"a", "b", "c"}).RanksPerHost(), 1);
  EXPECT_EQ(MapHosts({"a"}).RanksPerHost(), 1);
  EXPECT_EQ(HostMap().RanksPerHost(), 0);
}

TEST(HostMap, IsTheSameOnAllRanks) {
  TemporaryFolder folder;
  FileStore store(folder.path());
  std::vector<std::vector<int>> maps(5);
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 5; ++rank) {
    ranks.emplace_back([&, rank] {
      const auto map =
          AgreeOnHosts(store, "g", rank, 5, rank < 2 ? "x" : "y", In(std::chrono::seconds(60)));
      ASSERT_TRUE(map) << map.error().message;
      maps[static_cast<std::size_t>(rank)] = map->host_of;
    });
  }
  for (std::thread& rank : ranks) rank.join();
  for (const auto& map : maps) EXPECT_EQ(map, (std::vector<int>{0, 0, 1, 1, 1}));
}

TEST(HostMap, NamesARankThatDoesNotComeAndRefusesAnotherVersion) {
  TemporaryFolder folder;
  FileStore store(folder.path());
  const auto alone = AgreeOnHosts(store, "g", 0, 2, "x", In(std::chrono::milliseconds(20)));
  ASSERT_FALSE(alone);
  EXPECT_NE(alone.error().message.find("rank 1 did not join in time"), std::string::npos);
  ASSERT_TRUE(store.Set("h/hosts", "0 7", In(std::chrono::seconds(60))));
  const auto strange = AgreeOnHosts(store, "h", 1, 2, "x", In(std::chrono::seconds(60)));
  ASSERT_FALSE(strange);
  EXPECT_EQ(strange.error().code, ErrorCode::kFailedPrecondition);
}

}  // namespace
}  // namespace espalier::transport
