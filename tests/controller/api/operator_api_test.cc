#include "controller/api/operator_api.h"

#include <gtest/gtest.h>

#include <map>
#include <optional>

#include "common/files/json.h"
#include "tests/controller/cluster.h"

namespace espalier::controller {
namespace {

constexpr fabric::LeafSpineOptions kShape{.spines = 2, .leaves = 2, .hosts_per_leaf = 2};

class OperatorApiTest : public testing::Test {
 protected:
  OperatorApiTest()
      : cluster_(kShape), api_(cluster_.controller(), metrics_, [] { return io::HttpResponse{}; }) {
    cluster_.ConnectAll();
    cluster_.Open(0, {{.id = 5, .to = 2, .job = "A"}});
    cluster_.Open(1, {{.id = 6, .to = 3, .job = "A"}});
    cluster_.Settle();
  }

  io::HttpResponse Call(const std::string& method, const std::string& path,
                        std::map<std::string, std::string> query = {},
                        const std::string& body = {}) {
    std::optional<io::HttpResponse> answer;
    api_.Handle({.method = method,
                 .path = path,
                 .query = std::move(query),
                 .body = body,
                 .from_unix_socket = true,
                 .peer = "user ada"},
                [&](io::HttpResponse response) { answer = std::move(response); });
    cluster_.Settle();
    EXPECT_TRUE(answer.has_value()) << path;
    return answer.value_or(io::HttpResponse{});
  }
  io::JsonValue Json(const io::HttpResponse& response) {
    auto parsed = io::ParseJson(response.body, "answer");
    EXPECT_TRUE(parsed.has_value()) << response.body;
    return parsed.value_or(io::JsonValue{});
  }

  Metrics metrics_;
  Cluster cluster_;
  OperatorApi api_;
};

TEST_F(OperatorApiTest, ShowsWhatItExpects) {
  cluster_.End(0, 5);
  cluster_.Advance(std::chrono::seconds(1));
  cluster_.Open(0, {{.id = 7, .to = 2, .job = "A"}});
  cluster_.Advance(std::chrono::seconds(1));
  const auto answer = Json(Call("GET", "/api/v1/predict"));
  ASSERT_EQ(answer.Find("predict")->items.size(), 1U);
  const auto& job = answer.Find("predict")->items[0];
  EXPECT_EQ(job.Find("job")->text, "A");
  EXPECT_TRUE(job.Find("on")->boolean);
  EXPECT_EQ(job.Find("expected_starts")->text, "1");
  EXPECT_EQ(answer.Find("failure_plans")->Find("fresh")->text,
            answer.Find("failure_plans")->Find("loaded")->text);
  const auto explained = Json(Call("GET", "/api/v1/flows/explain", {{"flow", "h0:7"}}));
  EXPECT_EQ(explained.Find("flow")->Find("plan")->text, "PREDICTED");
}

TEST_F(OperatorApiTest, PagesOfListsAreTheWholeList) {
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

// The loop goes on while a long list is written.
TEST_F(OperatorApiTest, ALongListIsWrittenOverSeveralTurns) {
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
  // What lists say of all flows is counted in several turns, too.
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

TEST_F(OperatorApiTest, PagesOfEventsTellTheLatestNumber) {
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

TEST_F(OperatorApiTest, PagesOfTheTopologyAreTheWholeTopology) {
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

TEST_F(OperatorApiTest, PagesOfThePathMapAreTheWholePathMap) {
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

TEST_F(OperatorApiTest, TakesATelemetryFeed) {
  const auto report = [&](const std::string& body) {
    return Call("POST", "/api/v1/links/report", {}, body).status;
  };
  const auto state_of = [&](const std::string& link) {
    State& state = cluster_.state();
    return state.topology.link(*state.topology.FindLink(link)).state;
  };
  EXPECT_EQ(report("{\"link\": \"leaf0--spine0\", \"up\": false, \"source\": \"gnmi\"}\n\n"
                   "{\"link\": \"leaf1--spine1\", \"up\": true}\n"),
            200);
  EXPECT_EQ(state_of("leaf0--spine0"), fabric::LinkState::kDown);
  EXPECT_EQ(state_of("leaf1--spine1"), fabric::LinkState::kUp);
  EXPECT_EQ(report("{\"link\": \"leaf1--spine0\", \"up\": false}\n{\"link\": \"leaf9--x\", \"up\": "
                   "false}"),
            404);
  EXPECT_EQ(state_of("leaf1--spine0"), fabric::LinkState::kUp);  // all or nothing
  EXPECT_EQ(report("{\"link\": \"leaf1--spine0\"}"), 400);
  EXPECT_EQ(report("down"), 400);
  EXPECT_EQ(report("{\"link\": \"leaf0--spine0\", \"up\": true}"), 200);
  EXPECT_EQ(state_of("leaf0--spine0"), fabric::LinkState::kDown);  // not yet
  cluster_.Advance(std::chrono::seconds(3));
  EXPECT_EQ(state_of("leaf0--spine0"), fabric::LinkState::kUp);
}

TEST_F(OperatorApiTest, TakesASchedule) {
  const auto declare = [&](const std::string& body) {
    return Call("POST", "/api/v1/jobs/schedule", {}, body);
  };
  const auto taken = declare(
      R"({"job": "B", "period_us": 500000, "bytes": 1000, "flows": [["h0", "h2"], ["h2", "h0"]]})");
  EXPECT_EQ(taken.status, 200);
  EXPECT_EQ(taken.body, R"({"taken":2})");
  const auto jobs = Json(Call("GET", "/api/v1/predict")).Find("predict")->items;
  EXPECT_TRUE(std::any_of(jobs.begin(), jobs.end(), [](const io::JsonValue& job) {
    return job.Find("job")->text == "B" && job.Find("flows")->text == "2";
  }));
  EXPECT_EQ(declare(R"({"job": "B", "flows": [["h0", "h99"]]})").status, 404);
  EXPECT_EQ(declare(R"({"job": "B", "flows": [["h0", "spine0"]]})").status, 400);
  for (const char* wrong :
       {R"({"flows": []})", R"({"job": "", "flows": []})", R"({"job": "a\nb", "flows": []})",
        R"({"job": "B"})", R"({"job": "B", "flows": [["h0"]]})",
        R"({"job": "B", "flows": [["h0", 1]]})", R"({"job": "B", "flows": [], "period_us": -1})",
        R"({"job": "B", "flows": [], "transport": "pigeon"})",
        R"({"job": "B", "flows": [], "colour": 1})", "soon"}) {
    EXPECT_EQ(declare(wrong).status, 400) << wrong;
  }
}

TEST_F(OperatorApiTest, ShowsTheStateAsJson) {
  const auto status = Json(Call("GET", "/api/v1/status"));
  EXPECT_EQ(status.Find("flows")->text, "2");
  EXPECT_EQ(status.Find("agents_connected")->text, "4");
  EXPECT_EQ(status.Find("flows_by_status")->Find("ROUTED")->text, "2");
  const auto flows = Json(Call("GET", "/api/v1/flows"));
  ASSERT_EQ(flows.Find("flows")->items.size(), 2U);
  const auto& flow = flows.Find("flows")->items[0];
  EXPECT_EQ(flow.Find("flow")->text, "h0:5");
  EXPECT_EQ(flow.Find("via")->text, "spine0");
  EXPECT_TRUE(flow.Find("acknowledged")->boolean);
  EXPECT_EQ(Json(Call("GET", "/api/v1/links")).Find("links")->items.size(), 8U);
  EXPECT_EQ(Json(Call("GET", "/api/v1/agents")).Find("agents")->items.size(), 4U);
  EXPECT_GE(Json(Call("GET", "/api/v1/events")).Find("events")->items.size(), 5U);
  EXPECT_EQ(Call("GET", "/healthz").status, 200);
}

TEST_F(OperatorApiTest, GivesEventsAfterASequenceNumber) {
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

TEST_F(OperatorApiTest, TellsWhatWasPushed) {
  const auto plans = Json(Call("GET", "/api/v1/plans"));
  ASSERT_EQ(plans.Find("plans")->items.size(), 2U);
  const auto& plan = plans.Find("plans")->items[0];
  EXPECT_EQ(plan.Find("flow")->text, "h0:5");
  EXPECT_EQ(plan.Find("via")->text, "spine0");
  EXPECT_EQ(plan.Find("source_port")->text, std::to_string(cluster_.host(0).ports.at(5)));
  EXPECT_EQ(Json(Call("GET", "/api/v1/plans", {{"since", "1"}})).Find("plans")->items.size(), 1U);
}

TEST_F(OperatorApiTest, ExplainsAFlow) {
  const auto explained = Json(Call("GET", "/api/v1/flows/explain", {{"flow", "h1:6"}}));
  EXPECT_EQ(explained.Find("port_trust")->text, "VERIFIED");
  const auto& paths = explained.Find("paths")->items;
  ASSERT_EQ(paths.size(), 2U);
  EXPECT_FALSE(paths[0].Find("chosen")->boolean);
  EXPECT_TRUE(paths[1].Find("chosen")->boolean);
  EXPECT_EQ(paths[1].Find("links")->items[0].Find("direction")->text, "leaf0--spine1>spine1");
  for (const char* unknown : {"", "h1", "h1:7", "nobody:1", "h1:", "h1:06"}) {
    EXPECT_EQ(Call("GET", "/api/v1/flows/explain", {{"flow", unknown}}).status, 404) << unknown;
  }
}

TEST_F(OperatorApiTest, ActsOnLinksAndNodes) {
  auto outcome =
      Json(Call("POST", "/api/v1/links/fail", {{"id", "leaf0--spine0"}, {"dry_run", "true"}}));
  EXPECT_EQ(outcome.Find("moved")->text, "1");
  EXPECT_EQ(outcome.Find("moved_bytes")->text, "0");
  EXPECT_EQ(outcome.Find("version")->text, "1");
  outcome = Json(Call("POST", "/api/v1/links/fail", {{"id", "leaf0--spine0"}}));
  EXPECT_EQ(outcome.Find("moves")->items[0].Find("to")->text, "spine1");
  EXPECT_EQ(Call("POST", "/api/v1/links/fail", {{"id", "leaf0--spine0"}}).status, 409);
  EXPECT_EQ(Call("POST", "/api/v1/links/restore", {{"id", "leaf0--spine0"}}).status, 200);
  EXPECT_EQ(Call("POST", "/api/v1/nodes/fail", {{"id", "spine0"}}).status, 200);
  EXPECT_EQ(Call("POST", "/api/v1/recompute").status, 200);
}

TEST_F(OperatorApiTest, AuditsWhoDidWhatAndWhatItMoved) {
  Call("POST", "/api/v1/links/fail",
       {{"id", "leaf0--spine0"}, {"reason", "optics"}, {"until", "+1h"}});
  Call("POST", "/api/v1/links/fail", {{"id", "nowhere"}});
  Call("POST", "/api/v1/links/fail", {{"id", "leaf0--spine1"}, {"dry_run", "true"}});
  const auto answer = Json(Call("GET", "/api/v1/audit"));
  const auto& audit = answer.Find("audit")->items;
  ASSERT_EQ(audit.size(), 2U);
  EXPECT_EQ(audit[0].Find("actor")->text, "user ada");
  EXPECT_EQ(audit[0].Find("action")->text, "fail link");
  EXPECT_EQ(audit[0].Find("target")->text, "leaf0--spine0");
  EXPECT_EQ(audit[0].Find("reason")->text, "optics");
  EXPECT_NE(audit[0].Find("until")->text, "");
  EXPECT_EQ(audit[0].Find("result")->text, "DONE");
  EXPECT_EQ(audit[0].Find("revision")->text, "1");
  ASSERT_EQ(audit[0].Find("moves")->items.size(), 1U);
  EXPECT_EQ(audit[0].Find("moves")->items[0].Find("to")->text, "spine1");
  EXPECT_EQ(audit[1].Find("result")->text, "REFUSED");
  EXPECT_NE(audit[1].Find("detail")->text.find("nowhere"), std::string::npos);
  EXPECT_EQ(Json(Call("GET", "/api/v1/audit", {{"since", "1"}})).Find("audit")->items.size(), 1U);
  EXPECT_EQ(Call("GET", "/api/v1/audit", {{"since", "-1"}}).status, 400);
  const auto intents = Json(Call("GET", "/api/v1/intents"));
  ASSERT_EQ(intents.Find("intents")->items.size(), 1U);
  EXPECT_EQ(intents.Find("intents")->items[0].Find("what")->text, "failed link");
}

TEST_F(OperatorApiTest, RollsBack) {
  Call("POST", "/api/v1/links/fail", {{"id", "leaf0--spine0"}});
  Call("POST", "/api/v1/nodes/drain", {{"id", "spine1"}});
  EXPECT_EQ(Call("POST", "/api/v1/rollback", {{"to", "1"}}).status, 200);
  EXPECT_EQ(Json(Call("GET", "/api/v1/intents")).Find("intents")->items.size(), 1U);
  EXPECT_EQ(Call("POST", "/api/v1/rollback", {{"to", "1"}}).status, 409);
  EXPECT_EQ(Call("POST", "/api/v1/rollback", {{"to", "9"}}).status, 404);
  EXPECT_EQ(Call("POST", "/api/v1/rollback", {{"to", "one"}}).status, 400);
  EXPECT_EQ(Call("POST", "/api/v1/rollback", {{"until", "+1h"}}).status, 400);
}

TEST_F(OperatorApiTest, SetsWeightsAndPolicies) {
  EXPECT_EQ(Call("POST", "/api/v1/jobs/weight", {{"id", "A"}, {"weight", "3"}}).status, 200);
  EXPECT_EQ(Call("POST", "/api/v1/jobs/weight", {{"id", "A"}, {"weight", "3"}}).status, 409);
  EXPECT_EQ(Call("POST", "/api/v1/jobs/weight", {{"id", "A"}, {"weight", "x"}}).status, 400);
  EXPECT_EQ(Call("POST", "/api/v1/jobs/weight", {{"id", "A"}}).status, 400);
  const std::map<std::string, std::string> greedy = {{"id", "algorithm"}, {"value", "greedy"}};
  EXPECT_EQ(Call("POST", "/api/v1/policies/set", greedy).status, 200);
  EXPECT_EQ(Call("POST", "/api/v1/policies/set", {{"id", "listen"}, {"value", "x"}}).status, 404);
  const auto policies = Json(Call("GET", "/api/v1/policies"));
  const auto& algorithm = policies.Find("policies")->items.at(0);
  EXPECT_EQ(algorithm.Find("value")->text, "greedy");
  EXPECT_EQ(algorithm.Find("configured")->text, "optimal");
  EXPECT_EQ(algorithm.Find("set_by")->text, "user ada");
  const auto intents = Json(Call("GET", "/api/v1/intents"));
  ASSERT_EQ(intents.Find("intents")->items.size(), 2U);
  EXPECT_EQ(intents.Find("intents")->items[0].Find("value")->text, "3");
  EXPECT_EQ(Call("POST", "/api/v1/policies/reset", {{"id", "algorithm"}}).status, 200);
  EXPECT_EQ(Call("POST", "/api/v1/policies/reset", {{"id", "algorithm"}}).status, 409);
}

TEST_F(OperatorApiTest, RefusesWhatItDoesNotKnow) {
  EXPECT_EQ(Call("POST", "/api/v1/links/fail", {{"id", "nowhere"}}).status, 404);
  EXPECT_EQ(Call("POST", "/api/v1/links/fail").status, 404);
  EXPECT_EQ(Call("POST", "/api/v1/links/explode", {{"id", "leaf0--spine0"}}).status, 404);
  EXPECT_EQ(Call("POST", "/api/v1/recompute", {{"dry_run", "perhaps"}}).status, 400);
  EXPECT_EQ(Call("POST", "/api/v1/recompute", {{"move_bytes", "few"}}).status, 400);
  EXPECT_EQ(Call("GET", "/api/v1/recompute").status, 404);
  EXPECT_EQ(Call("DELETE", "/api/v1/flows").status, 404);
  EXPECT_EQ(cluster_.state().topology.version(), 1);
}

}  // namespace
}  // namespace espalier::controller
