// Tests the list of the path map, pair by pair.
#include "controller/api/lists/path_map_list.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "tests/controller/api/long_lists_fixture.h"
#include "tests/controller/api/operator_api_fixture.h"

namespace espalier::controller {
namespace {

class PathMapListTest : public OperatorApiFixture {};
class LongPathMapTest : public LongLists {};

TEST_F(PathMapListTest, PagesOfThePathMapAreTheWholePathMap) {
  fabric::PathMap& map = cluster_.state().path_map;
  fabric::PortKey key{.source = *cluster_.state().topology.FindNode("h0"),
                      .destination = *cluster_.state().topology.FindNode("h2")};
  for (key.destination_qpn = 1; key.destination_qpn <= 1'500; ++key.destination_qpn) {
    map.Predict(key, 0xC000, fabric::PathIndex(0));
  }
  const auto get = [&](std::map<std::string, std::string> query) {
    return Json(Call("GET", "/api/v1/path-map", std::move(query)));
  };
  const auto first = get({});
  EXPECT_EQ(first.Find("pairs")->items.size(), 1'000U);
  EXPECT_EQ(first.Find("pairs_known")->text, std::to_string(map.KeyCount()));
  EXPECT_EQ(first.Find("pairs_left_off")->text, std::to_string(map.KeyCount() - 1'000));
  ASSERT_NE(first.Find("next"), nullptr);
  std::size_t pairs = 0;
  std::string after;
  do {
    const auto page = get({{"limit", "700"}, {"after", after}});
    pairs += page.Find("pairs")->items.size();
    EXPECT_EQ(page.Find("pairs_left_off")->text, std::to_string(map.KeyCount() - pairs));
    EXPECT_EQ(page.Find("predicted")->text, first.Find("predicted")->text);
    after = page.Find("next") != nullptr ? page.Find("next")->text : "";
  } while (!after.empty());
  EXPECT_EQ(pairs, map.KeyCount());
  EXPECT_TRUE(get({{"source", "nobody"}}).Find("pairs")->items.empty());
  EXPECT_GE(get({{"source", "h0"}, {"limit", "9999"}}).Find("pairs")->items.size(), 1'500U);
  for (const char* wrong :
       {"x", "1", "1-2-17-4791", "1-2-17-4791-0-", "1-2-256-4791-0", "1-2-17-65536-0",
        "4294967295-2-17-4791-0", "-1-2-17-4791-0", "1-2-17-4791-4294967296"}) {
    EXPECT_EQ(Call("GET", "/api/v1/path-map", {{"after", wrong}}).status, 400) << wrong;
  }
  EXPECT_EQ(Call("GET", "/api/v1/path-map", {{"limit", "0"}}).status, 400);
  EXPECT_EQ(Call("GET", "/api/v1/path-map", {{"limit", "-1"}}).status, 400);
}

TEST_F(LongPathMapTest, ThePathMapIsCountedAndWrittenInPieces) {
  fabric::PathMap& map = cluster_.state().path_map;
  fabric::PortKey key{.source = *cluster_.state().topology.FindNode("h0"),
                      .destination = *cluster_.state().topology.FindNode("h100")};
  constexpr std::uint32_t kKeys = 100'000;
  for (key.destination_qpn = 1; key.destination_qpn <= kKeys; ++key.destination_qpn) {
    map.Predict(key, 0xC000, fabric::PathIndex(0));
  }
  const Written pairs = Write("/api/v1/path-map", {{"limit", "2000"}});
  ExpectInPieces(pairs, pairs.list.Find("pairs")->items.size());
  // A small page counts all keys first, 64 of them for the work of one item.
  const Written page = Write("/api/v1/path-map", {{"limit", "1"}});
  EXPECT_EQ(page.list.Find("pairs_left_off")->text, std::to_string(map.KeyCount() - 1));
  ExpectInPieces(page, kKeys / 64);
}

// Keys change places if the map grows during the count.
TEST_F(LongPathMapTest, ThePathMapMayGrowAndShrinkWhileItIsWritten) {
  fabric::PathMap& map = cluster_.state().path_map;
  fabric::PortKey key{.source = *cluster_.state().topology.FindNode("h0"),
                      .destination = *cluster_.state().topology.FindNode("h100")};
  const auto learn = [&](std::uint32_t from, std::uint32_t to) {
    for (key.destination_qpn = from; key.destination_qpn < to; ++key.destination_qpn) {
      map.Predict(key, 0xC000, fabric::PathIndex(0));
    }
  };
  learn(0, 50'000);
  std::optional<io::HttpResponse> answer;
  api_.Handle({.method = "GET",
               .path = "/api/v1/path-map",
               .query = {{"limit", "1000000"}},
               .from_unix_socket = true},
              [&](io::HttpResponse response) { answer = std::move(response); });
  const std::size_t places = map.PlaceCount();
  learn(50'000, 200'000);
  ASSERT_NE(map.PlaceCount(), places);
  int turns = 0;
  const std::function<void()> forget = [&] {
    key.destination_qpn = static_cast<std::uint32_t>(199'999 - turns);
    map.Forget(key);
    if (++turns < 1'000) cluster_.controller().loop().Post(forget);
  };
  forget();
  cluster_.Settle();
  ASSERT_TRUE(answer.has_value());
  const auto list = io::ParseJson(answer->body, "answer");
  ASSERT_TRUE(list.has_value());
  EXPECT_EQ(list->Find("next"), nullptr);
  EXPECT_EQ(list->Find("pairs_left_off")->text, "0");
  EXPECT_GE(list->Find("pairs")->items.size(), map.KeyCount());
  EXPECT_LE(list->Find("pairs")->items.size(), 200'000U);
}

}  // namespace
}  // namespace espalier::controller
