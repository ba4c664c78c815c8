#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "common/files/json.h"
#include "controller/api/list_writer.h"
#include "controller/api/operator_api.h"
#include "tests/controller/cluster.h"

namespace espalier::controller {
namespace {

// Lists that are long, of a fabric of some hundred nodes and links.
class LongListsTest : public testing::Test {
 protected:
  static constexpr int kHosts = 512;

  LongListsTest()
      : cluster_({.spines = 4, .leaves = 64, .hosts_per_leaf = 8}),
        api_(cluster_.controller(), metrics_, [] { return io::HttpResponse{}; }) {}

  // The list of `array`, and how many turns others had while it was written.
  struct Written {
    io::JsonValue list;
    std::size_t turns_of_others = 0;
  };
  Written Write(const std::string& path, std::map<std::string, std::string> query = {}) {
    std::optional<io::HttpResponse> answer;
    api_.Handle({.method = "GET",
                 .path = path,
                 .query = std::move(query),
                 .from_unix_socket = true,
                 .peer = "user ada"},
                [&](io::HttpResponse response) { answer = std::move(response); });
    Written written;
    const std::function<void()> turn = [&] {
      if (answer) return;
      ++written.turns_of_others;
      cluster_.controller().loop().Post(turn);
    };
    turn();
    cluster_.Settle();
    EXPECT_TRUE(answer.has_value()) << path;
    auto parsed = io::ParseJson(answer.value_or(io::HttpResponse{}).body, path);
    EXPECT_TRUE(parsed.has_value()) << path;
    written.list = parsed.value_or(io::JsonValue{});
    return written;
  }
  // Others had a turn after every kListItemsPerTurn items.
  static void ExpectInPieces(const Written& written, std::size_t items) {
    EXPECT_GE(items, 2 * kListItemsPerTurn);
    EXPECT_GE(written.turns_of_others, items / kListItemsPerTurn);
  }

  Metrics metrics_;
  Cluster cluster_;
  OperatorApi api_;
};

TEST_F(LongListsTest, LinksAreWrittenInPieces) {
  const Written links = Write("/api/v1/links");
  EXPECT_EQ(links.list.Find("links")->items.size(), cluster_.state().topology.links().size());
  ExpectInPieces(links, links.list.Find("links")->items.size());
}

TEST_F(LongListsTest, NodesAndLinksOfTheTopologyAreWrittenInPieces) {
  const Written topology = Write("/api/v1/topology");
  ExpectInPieces(topology, topology.list.Find("nodes")->items.size() +
                               topology.list.Find("links")->items.size());
}

TEST_F(LongListsTest, EventsAreWrittenInPieces) {
  EventHistory& history = cluster_.state().history;
  for (int i = 0; i < 2'000; ++i) {
    history.Record(cluster_.controller().Now(), "test", std::to_string(i));
  }
  const Written events = Write("/api/v1/events");
  EXPECT_GE(events.list.Find("events")->items.size(), 2'000U);
  ExpectInPieces(events, events.list.Find("events")->items.size());
}

TEST_F(LongListsTest, JobsAndPlansAreWrittenInPieces) {
  cluster_.ConnectAll();
  for (int i = 0; i < kHosts; ++i) {
    cluster_.Open(i, {{.id = 1, .to = (i + 8) % kHosts, .job = "job" + std::to_string(i)}});
  }
  cluster_.Settle();
  const Written jobs = Write("/api/v1/jobs");
  EXPECT_EQ(jobs.list.Find("jobs")->items.size(), static_cast<std::size_t>(kHosts));
  // Flows are counted, names looked at, and jobs written.
  ExpectInPieces(jobs, std::size_t{3} * kHosts);
  const Written plans = Write("/api/v1/plans");
  ExpectInPieces(plans, plans.list.Find("plans")->items.size());
}

TEST_F(LongListsTest, ThePathMapIsCountedAndWrittenInPieces) {
  fabric::PathMap& map = cluster_.state().path_map;
  fabric::PortKey key{.source = *cluster_.state().topology.FindNode("h0"),
                      .destination = *cluster_.state().topology.FindNode("h100")};
  constexpr std::uint32_t kKeys = 100'000;
  for (key.destination_qpn = 1; key.destination_qpn <= kKeys; ++key.destination_qpn) {
    map.Predict(key, 0xC000, fabric::PathIndex(0));
  }
  const Written pairs = Write("/api/v1/path-map", {{"limit", "2000"}});
  ExpectInPieces(pairs, pairs.list.Find("pairs")->items.size());
  // A small page counts all keys before, 64 for the work of an item.
  const Written page = Write("/api/v1/path-map", {{"limit", "1"}});
  EXPECT_EQ(page.list.Find("pairs_left_off")->text, std::to_string(map.KeyCount() - 1));
  ExpectInPieces(page, kKeys / 64);
}

// Keys have other places where the map grows while it is counted.
TEST_F(LongListsTest, ThePathMapMayGrowAndShrinkWhileItIsWritten) {
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
