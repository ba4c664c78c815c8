// Tests the lists of the API: their pages, and that long lists take several turns.
#include "controller/api/lists/lists.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tests/controller/api/long_lists_fixture.h"
#include "tests/controller/api/operator_api_fixture.h"

namespace espalier::controller {
namespace {

class ListsTest : public OperatorApiFixture {};
class LongListsTest : public LongLists {};

TEST_F(ListsTest, PagesOfListsAreTheWholeList) {
  cluster_.Open(1, {{.id = 90, .to = 2, .job = ""}});  // of a job without a name
  cluster_.Settle();
  const std::map<std::string, std::string> names = {{"flows", "flow"},     {"agents", "name"},
                                                    {"links", "id"},       {"jobs", "job"},
                                                    {"plans", "sequence"}, {"events", "sequence"}};
  for (const auto& [list, name] : names) {
    const std::string path = "/api/v1/" + list;
    const auto whole = Json(Call("GET", path));
    ASSERT_GE(whole.Find(list)->items.size(), 2U);
    EXPECT_EQ(whole.Find("next"), nullptr);
    std::vector<std::string> paged;
    std::string after;
    do {
      const auto page = Json(Call("GET", path, {{"limit", "1"}, {"after", after}}));
      ASSERT_EQ(page.Find(list)->items.size(), 1U);
      paged.push_back(page.Find(list)->items[0].Find(name)->text);
      after = page.Find("next") != nullptr ? page.Find("next")->text : "";
    } while (!after.empty());
    ASSERT_EQ(paged.size(), whole.Find(list)->items.size());
    for (std::size_t i = 0; i < paged.size(); ++i) {
      EXPECT_EQ(paged[i], whole.Find(list)->items[i].Find(name)->text);
    }
    EXPECT_EQ(Call("GET", path, {{"limit", "0"}}).status, 400);
    EXPECT_EQ(Call("GET", path, {{"limit", "many"}}).status, 400);
    EXPECT_EQ(Call("GET", path, {{"after", "nobody:1"}}).status, 400);
  }
  EXPECT_EQ(Call("GET", "/api/v1/flows", {{"after", "h0:"}}).status, 400);
}

// The loop does other work while a long list is written.
TEST_F(ListsTest, ALongListIsWrittenOverSeveralTurns) {
  for (std::uint64_t id = 100; id < 1'100; ++id) {
    cluster_.Open(0, {{.id = id, .to = 2, .job = "A"}});
  }
  std::optional<io::HttpResponse> answer;
  api_.Handle({.method = "GET", .path = "/api/v1/flows", .from_unix_socket = true},
              [&](io::HttpResponse response) { answer = std::move(response); });
  EXPECT_FALSE(answer.has_value());
  cluster_.Settle();
  ASSERT_TRUE(answer.has_value());
  EXPECT_GE(Json(*answer).Find("flows")->items.size(), 1'000U);
  // The statistics of flows for a list take several turns, too.
  for (const char* list : {"links", "jobs", "plans"}) {
    answer.reset();
    api_.Handle({.method = "GET", .path = "/api/v1/" + std::string(list), .from_unix_socket = true},
                [&](io::HttpResponse response) { answer = std::move(response); });
    EXPECT_FALSE(answer.has_value()) << list;
    cluster_.Settle();
    ASSERT_TRUE(answer.has_value()) << list;
    EXPECT_GE(Json(*answer).Find(list)->items.size(), 1U);
  }
}

TEST_F(ListsTest, PagesOfEventsHaveTheLatestNumber) {
  const auto page = Json(Call("GET", "/api/v1/events", {{"limit", "2"}, {"since", "1"}}));
  ASSERT_EQ(page.Find("events")->items.size(), 2U);
  EXPECT_EQ(page.Find("events")->items[0].Find("sequence")->text, "2");
  EXPECT_EQ(page.Find("next")->text, "3");
  EXPECT_EQ(page.Find("last_sequence")->text,
            std::to_string(cluster_.state().history.last_sequence()));
  const std::string last = std::to_string(UINT64_MAX);
  EXPECT_TRUE(Json(Call("GET", "/api/v1/events", {{"after", last}})).Find("events")->items.empty());
  for (const char* after : {"x", "-1", "1 ", "18446744073709551616"}) {
    EXPECT_EQ(Call("GET", "/api/v1/events", {{"after", after}}).status, 400) << after;
  }
}

TEST_F(ListsTest, PagesOfTheTopologyAreTheWholeTopology) {
  const std::string whole = Call("GET", "/api/v1/topology").body;
  const fabric::Topology& topology = cluster_.state().topology;
  std::vector<std::string> nodes;
  std::vector<std::string> links;
  std::string after;
  do {
    const auto page = Json(Call("GET", "/api/v1/topology", {{"limit", "3"}, {"after", after}}));
    EXPECT_EQ(page.Find("name")->text, topology.name());
    for (const auto& node : page.Find("nodes")->items) nodes.push_back(node.Find("id")->text);
    for (const auto& link : page.Find("links")->items) links.push_back(link.Find("id")->text);
    EXPECT_LE(page.Find("nodes")->items.size() + page.Find("links")->items.size(), 3U);
    after = page.Find("next") != nullptr ? page.Find("next")->text : "";
  } while (!after.empty());
  ASSERT_EQ(nodes.size(), topology.nodes().size());
  ASSERT_EQ(links.size(), topology.links().size());
  for (std::size_t i = 0; i < nodes.size(); ++i) EXPECT_EQ(nodes[i], topology.nodes()[i].id);
  for (std::size_t i = 0; i < links.size(); ++i) EXPECT_EQ(links[i], topology.links()[i].id);
  EXPECT_EQ(Json({.status = 200, .body = whole}).Find("nodes")->items.size(), nodes.size());
  for (const char* wrong : {"leaf0", "node:", "node:nobody", "link:leaf0", "link:leaf9--x"}) {
    EXPECT_EQ(Call("GET", "/api/v1/topology", {{"after", wrong}}).status, 400) << wrong;
  }
  EXPECT_EQ(Call("GET", "/api/v1/topology", {{"limit", "0"}}).status, 400);
}

TEST_F(ListsTest, GivesEventsAfterASequenceNumber) {
  const std::string last = Json(Call("GET", "/api/v1/events")).Find("last_sequence")->text;
  EXPECT_TRUE(Json(Call("GET", "/api/v1/events", {{"since", last}})).Find("events")->items.empty());
  Call("POST", "/api/v1/links/fail", {{"id", "leaf0--spine0"}});
  const auto after = Json(Call("GET", "/api/v1/events", {{"since", last}}));
  ASSERT_EQ(after.Find("events")->items.size(), 1U);
  EXPECT_EQ(after.Find("events")->items[0].Find("kind")->text, "link_failed");
  EXPECT_EQ(after.Find("events")->items[0].Find("text")->text,
            "link=leaf0--spine0 version=2 moved=1");
  EXPECT_EQ(Call("GET", "/api/v1/events", {{"since", "soon"}}).status, 400);
}

TEST_F(ListsTest, ListsPushedPaths) {
  const auto plans = Json(Call("GET", "/api/v1/plans"));
  ASSERT_EQ(plans.Find("plans")->items.size(), 2U);
  const auto& plan = plans.Find("plans")->items[0];
  EXPECT_EQ(plan.Find("flow")->text, "h0:5");
  EXPECT_EQ(plan.Find("via")->text, "spine0");
  EXPECT_EQ(plan.Find("source_port")->text, std::to_string(cluster_.host(0).ports.at(5)));
  EXPECT_EQ(Json(Call("GET", "/api/v1/plans", {{"since", "1"}})).Find("plans")->items.size(), 1U);
}

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
  // The turns count flows, scan names, and write jobs.
  ExpectInPieces(jobs, std::size_t{3} * kHosts);
  const Written plans = Write("/api/v1/plans");
  ExpectInPieces(plans, plans.list.Find("plans")->items.size());
}

}  // namespace
}  // namespace espalier::controller
