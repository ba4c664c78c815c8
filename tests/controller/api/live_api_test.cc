// The description of the API is what the API does, and the live feed tells what the views tell.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/identity/access_tokens.h"
#include "controller/api/http/http_guard.h"
#include "controller/api/operator_api.h"
#include "tests/controller/api/json_schema.h"
#include "tests/controller/cluster.h"

namespace espalier::controller {
namespace {

using io::JsonValue;

constexpr const char* kToken = "esp_token";
constexpr fabric::LeafSpineOptions kShape{.spines = 2, .leaves = 2, .hosts_per_leaf = 2};

class LiveApiTest : public testing::Test {
 protected:
  static ControllerOptions Options() {
    ControllerOptions options;
    options.fabric_hashes_protocol = false;  // what UDP probes learn holds for TCP
    return options;
  }
  LiveApiTest()
      : cluster_(kShape, Options()),
        api_(cluster_.controller(), metrics_,
             [] { return io::HttpResponse{.body = "{\"reloaded\": true}\n"}; }),
        guard_(
            tokens_, [] { return WallTime{}; }, [](const auto&, const auto&) {},
            [this](const io::HttpRequest& request, io::HttpServer::Respond respond) {
              api_.Handle(request, std::move(respond));
            }) {
    const Result<void> added = tokens_.Add(
        {.name = "ada", .role = identity::Role::kViewer, .sha256 = identity::HashToken(kToken)});
    EXPECT_TRUE(added.has_value());
    cluster_.ConnectAll();
    cluster_.Open(0, {{.id = 5, .to = 2, .job = "A"}});
    cluster_.Open(1, {{.id = 6, .to = 3, .job = "B"}});
    cluster_.Settle();
  }

  io::HttpResponse Call(const std::string& method, const std::string& path,
                        std::map<std::string, std::string> query = {},
                        std::map<std::string, std::string> headers = {},
                        const std::string& body = "") {
    std::optional<io::HttpResponse> answer;
    guard_.Handle({.method = method,
                   .path = path,
                   .query = std::move(query),
                   .body = body,
                   .headers = std::move(headers),
                   .from_unix_socket = true,
                   .peer = "user ada"},
                  [&](io::HttpResponse response) { answer = std::move(response); });
    cluster_.Settle();
    EXPECT_TRUE(answer.has_value()) << path;
    return answer.value_or(io::HttpResponse{});
  }
  static JsonValue Parse(const std::string& text) {
    auto parsed = io::ParseJson(text, "answer");
    EXPECT_TRUE(parsed.has_value()) << text;
    return parsed.value_or(JsonValue{});
  }
  JsonValue Description() { return Parse(Call("GET", "/api/v1/openapi.json").body); }

  // A server-sent event.
  struct Event {
    std::string name;
    JsonValue data;
  };
  Event Take(io::HttpStream& stream) {
    const auto next = stream.Next();
    if (!next) return {};
    const std::string& piece = *next;
    const std::size_t data = piece.find("\ndata: ");
    if (!piece.starts_with("event: ") || data == std::string::npos) return {};
    EXPECT_TRUE(piece.ends_with("}\n\n"));
    return {piece.substr(7, piece.find('\n') - 7), Parse(piece.substr(data + 7))};
  }
  int Count(const std::string& counter) {
    const std::string text = metrics_.Text();
    const std::size_t at = text.find("\n" + counter + " ");
    return at == std::string::npos ? -1 : std::stoi(text.substr(at + counter.size() + 2));
  }
  std::shared_ptr<io::HttpStream> Connect() { return Call("GET", "/api/v1/stream").stream; }
  void Refresh() { cluster_.Advance(std::chrono::milliseconds(600)); }

  Metrics metrics_;
  Cluster cluster_;
  OperatorApi api_;
  identity::AccessTokens tokens_;
  HttpGuard guard_;
};

std::set<std::string> Names(const JsonValue& data, const char* part, const char* key) {
  std::set<std::string> names;
  if (const JsonValue* records = data.Find(part)) {
    for (const JsonValue& record : records->items) names.insert(record.Find(key)->text);
  }
  return names;
}

TEST_F(LiveApiTest, EveryRouteOfTheDescriptionAnswersAsItSays) {
  const JsonValue description = Description();
  int routes = 0;
  for (const auto& [path, methods] : description.Find("paths")->members) {
    for (const auto& [method, operation] : methods.members) {
      ++routes;
      std::map<std::string, std::string> query;
      if (const JsonValue* parameters = operation.Find("parameters")) {
        for (const JsonValue& parameter : parameters->items) {
          const JsonValue* const example = parameter.Find("example");
          ASSERT_NE(example, nullptr) << path;
          query[parameter.Find("name")->text] = example->text;
        }
      }
      const io::HttpResponse answer = Call(method == "get" ? "GET" : "POST", path, query);
      const JsonValue* const stated =
          operation.Find("responses")->Find(std::to_string(answer.status));
      ASSERT_NE(stated, nullptr) << path << " " << answer.status << " " << answer.body;
      const auto& [type, content] = Resolve(description, *stated).Find("content")->members.front();
      EXPECT_TRUE(answer.content_type.starts_with(type)) << path << " " << answer.content_type;
      if (type != "application/json") continue;
      EXPECT_EQ(Violation(description, *content.Find("schema"), Parse(answer.body), path), "");
      if (path.find("restore") == std::string::npos && path.find("undrain") == std::string::npos &&
          path.find("rollback") == std::string::npos && path.find("reset") == std::string::npos &&
          path.find("jobs/") == std::string::npos && path.find("forests/") == std::string::npos &&
          path != "/api/v1/login") {
        EXPECT_EQ(answer.status, 200) << path << " " << answer.body;
      }
    }
  }
  EXPECT_GE(routes, 42);
}

TEST_F(LiveApiTest, EveryRouteIsInTheDescriptionAndNoOther) {
  const auto lower = [](std::string_view method) {
    return std::string(method == "GET" ? "get" : "post");
  };
  std::set<std::pair<std::string, std::string>> answered;
  for (const auto& routes : {OperatorApi::Routes(), HttpGuard::Routes()}) {
    for (const Route& route : routes) {
      EXPECT_TRUE(answered.emplace(std::string(route.path), lower(route.method)).second)
          << route.path;
    }
  }
  std::set<std::pair<std::string, std::string>> described;
  const JsonValue description = Description();
  for (const auto& [path, methods] : description.Find("paths")->members) {
    for (const auto& [method, operation] : methods.members) described.emplace(path, method);
  }
  EXPECT_EQ(answered, described);
}

TEST_F(LiveApiTest, LoggingInIsAsTheDescriptionSays) {
  const JsonValue description = Description();
  const auto expect = [&](const io::HttpResponse& answer, const std::string& schema) {
    EXPECT_EQ(answer.status, 200) << answer.body;
    const JsonValue* const found = description.Find("components")->Find("schemas")->Find(schema);
    ASSERT_NE(found, nullptr);
    EXPECT_EQ(Violation(description, *found, Parse(answer.body), schema), "");
  };
  EXPECT_EQ(Call("POST", "/api/v1/login", {}, {}, "esp_wrong").status, 401);
  const io::HttpResponse in = Call("POST", "/api/v1/login", {}, {}, kToken);
  expect(in, "Login");
  EXPECT_TRUE(std::any_of(in.headers.begin(), in.headers.end(),
                          [](const auto& header) { return header.first == "Set-Cookie"; }));
  expect(Call("GET", "/api/v1/session"), "Session");
  expect(Call("POST", "/api/v1/reload"), "Reloaded");
  expect(Call("POST", "/api/v1/logout"), "LoggedOut");
}

// 1,024 logins with one token once ended everybody's.
TEST_F(LiveApiTest, ManyLoginsWithOneTokenEndNobodyElses) {
  const std::string other = "esp_other";
  ASSERT_TRUE(tokens_.Add(
      {.name = "bob", .role = identity::Role::kViewer, .sha256 = identity::HashToken(other)}));
  const auto log_in = [&](const std::string& token) {
    const io::HttpResponse answer = Call("POST", "/api/v1/login", {}, {}, token);
    for (const auto& [name, value] : answer.headers) {
      if (name == "Set-Cookie") return value.substr(0, value.find(';'));
    }
    return std::string();
  };
  const auto is_in = [&](const std::string& cookie) {
    std::optional<io::HttpResponse> answer;
    guard_.Handle({.method = "GET",
                   .path = "/api/v1/session",
                   .query = {},
                   .headers = {{"cookie", cookie}},
                   .peer = "10.0.0.1"},
                  [&](io::HttpResponse response) { answer = std::move(response); });
    return answer && answer->status == 200;
  };
  const std::string bobs = log_in(other);
  const std::string first = log_in(kToken);
  ASSERT_TRUE(is_in(bobs) && is_in(first));
  std::string last;
  for (int i = 0; i < 1'100; ++i) last = log_in(kToken);
  EXPECT_TRUE(is_in(bobs));
  EXPECT_TRUE(is_in(last));
  EXPECT_FALSE(is_in(first));
}

TEST_F(LiveApiTest, DoneActionsAndTheirTracesAreAsTheDescriptionSays) {
  const JsonValue description = Description();
  const auto expect = [&](const io::HttpResponse& answer, const std::string& schema) {
    EXPECT_EQ(answer.status, 200) << answer.body;
    const JsonValue* const found = description.Find("components")->Find("schemas")->Find(schema);
    EXPECT_EQ(Violation(description, *found, Parse(answer.body), schema), "");
  };
  expect(Call("POST", "/api/v1/links/fail", {{"id", "leaf0--spine0"}, {"reason", "x"}}), "Outcome");
  expect(Call("POST", "/api/v1/nodes/drain", {{"id", "spine1"}, {"until", "+1h"}}), "Outcome");
  expect(Call("POST", "/api/v1/rollback"), "Outcome");
  expect(Call("POST", "/api/v1/links/restore", {{"id", "leaf0--spine0"}}), "Outcome");
  expect(Call("POST", "/api/v1/jobs/weight", {{"id", "A"}, {"weight", "2"}}), "Outcome");
  expect(Call("POST", "/api/v1/policies/set", {{"id", "plan_ahead"}, {"value", "false"}}),
         "Outcome");
  expect(Call("GET", "/api/v1/audit"), "Audit");
  expect(Call("GET", "/api/v1/intents"), "Intents");
  expect(Call("GET", "/api/v1/events"), "Events");
  const io::HttpResponse refused = Call("GET", "/api/v1/nothing");
  EXPECT_EQ(refused.status, 404);
  EXPECT_EQ(Violation(description, *description.Find("components")->Find("schemas")->Find("Error"),
                      Parse(refused.body), "error"),
            "");
}

TEST_F(LiveApiTest, JobsOnForestsAreAsTheDescriptionSays) {
  const JsonValue description = Description();
  const auto post = [&](const std::string& path, const std::string& body) {
    io::HttpRequest request{.method = "POST", .path = path, .query = {}, .body = body};
    if (path.ends_with("stop")) request.query["id"] = body;
    std::optional<io::HttpResponse> answer;
    api_.Handle(request, [&](io::HttpResponse response) { answer = std::move(response); });
    cluster_.Settle();
    return answer.value_or(io::HttpResponse{});
  };
  const auto expect = [&](const std::string& text, const std::string& schema) {
    const JsonValue* const found = description.Find("components")->Find("schemas")->Find(schema);
    EXPECT_EQ(Violation(description, *found, Parse(text), schema), "");
  };
  EXPECT_EQ(post("/api/v1/jobs/start", "{}").status, 400);
  EXPECT_EQ(post("/api/v1/jobs/start", R"({"name": "train", "ranks": ["h0", 7]})").status, 400);
  const auto unknown = post("/api/v1/jobs/start", R"({"name": "train", "ranks": ["h0", "x"]})");
  EXPECT_EQ(unknown.status, 400) << unknown.body;
  for (const char* user : {R"("Al ice")", R"("4294967296")", "7"}) {
    const auto refused =
        post("/api/v1/jobs/start",
             fmt::format(R"({{"name": "train", "ranks": ["h0", "h2"], "user": {}}})", user));
    EXPECT_EQ(refused.status, 400) << user;
    EXPECT_NE(refused.body.find("user"), std::string::npos) << refused.body;
  }
  const auto started =
      post("/api/v1/jobs/start",
           R"({"name": "train", "ranks": ["h0", "h2"], "bytes": 1000000, "user": "alice"})");
  EXPECT_EQ(started.status, 200) << started.body;
  expect(started.body, "Outcome");
  const std::string forests = Call("GET", "/api/v1/forests").body;
  expect(forests, "Forests");
  EXPECT_EQ(Names(Parse(forests), "forests", "job"), (std::set<std::string>{"train"}));
  EXPECT_EQ(Names(Parse(forests), "forests", "user"), (std::set<std::string>{"alice"}));
  cluster_.Advance(std::chrono::seconds(1));  // the ports of its edges are learned
  const std::string plan = Call("GET", "/api/v1/forests/plan", {{"job", "train"}}).body;
  expect(plan, "ForestPlan");
  // Every rank is the root of trees both ways; all edges belong to trees.
  const JsonValue told = Parse(plan);
  std::set<std::pair<std::string, bool>> roots;
  std::set<std::size_t> edges;
  for (const JsonValue& tree : told.Find("trees")->items) {
    roots.emplace(tree.Find("root")->text, tree.Find("towards_root")->boolean);
    EXPECT_EQ(tree.Find("height")->text, "1");
    for (const JsonValue& edge : tree.Find("edges")->items) edges.insert(std::stoul(edge.text));
  }
  EXPECT_EQ(roots.size(), 4U);
  ASSERT_FALSE(edges.empty());
  ASSERT_EQ(edges.size(), told.Find("edges")->items.size());
  EXPECT_EQ(*edges.rbegin() + 1, edges.size());
  expect(Call("GET", "/api/v1/intents").body, "Intents");
  expect(Call("GET", "/api/v1/flows").body, "Flows");
  EXPECT_EQ(post("/api/v1/jobs/stop", "train").status, 200);
  EXPECT_EQ(post("/api/v1/jobs/stop", "train").status, 404);
}

TEST_F(LiveApiTest, StreamsASnapshotAndThenOnlyWhatChanges) {
  const JsonValue description = Description();
  const JsonValue& schema = *description.Find("components")->Find("schemas")->Find("LiveUpdate");
  const auto stream = Connect();
  ASSERT_NE(stream, nullptr);
  const Event whole = Take(*stream);
  EXPECT_EQ(whole.name, "snapshot");
  EXPECT_EQ(Violation(description, schema, whole.data, "snapshot"), "");
  EXPECT_EQ(Names(whole.data, "flows", "flow"), (std::set<std::string>{"h0:5", "h1:6"}));
  EXPECT_EQ(whole.data.Find("links")->items.size(), 8U);
  EXPECT_EQ(whole.data.Find("agents")->items.size(), 4U);
  EXPECT_NE(whole.data.Find("status"), nullptr);
  Refresh();
  EXPECT_EQ(stream->Next(), nullptr) << "nothing has changed";

  cluster_.End(0, 5);
  cluster_.Open(2, {{.id = 7, .to = 0, .job = "A"}});
  Refresh();
  const Event update = Take(*stream);
  EXPECT_EQ(update.name, "update");
  EXPECT_EQ(Violation(description, schema, update.data, "update"), "");
  EXPECT_EQ(Names(update.data, "flows", "flow"), (std::set<std::string>{"h2:7"}));
  ASSERT_EQ(update.data.Find("ended")->items.size(), 1U);
  EXPECT_EQ(update.data.Find("ended")->items[0].text, "h0:5");
  EXPECT_LE(update.data.Find("links")->items.size(), 4U);
  EXPECT_EQ(stream->Next(), nullptr);
}

TEST_F(LiveApiTest, TellsOfFailuresAsTheyHappen) {
  const auto stream = Connect();
  Take(*stream);
  Call("POST", "/api/v1/links/fail", {{"id", "leaf0--spine0"}, {"reason", "optics"}});
  Refresh();
  const Event update = Take(*stream);
  EXPECT_EQ(Names(update.data, "events", "kind"), (std::set<std::string>{"link_failed"}));
  bool seen = false;
  for (const JsonValue& link : update.data.Find("links")->items) {
    if (link.Find("id")->text != "leaf0--spine0") continue;
    seen = true;
    EXPECT_EQ(link.Find("state")->text, "DOWN");
    EXPECT_EQ(link.Find("reason")->text, "optics");
  }
  EXPECT_TRUE(seen);
  EXPECT_EQ(update.data.Find("flows")->items[0].Find("reason")->text, "PATH_DEAD");
}

TEST_F(LiveApiTest, EachChangeIsWrittenDownOnceForAllWhoReadIt) {
  constexpr int kChanges = 10;
  std::vector<std::shared_ptr<io::HttpStream>> streams;
  for (std::size_t i = 0; i < LiveFeed::kMostClients; ++i) streams.push_back(Connect());
  for (const auto& stream : streams) EXPECT_EQ(Take(*stream).name, "snapshot");
  std::vector<std::vector<const std::string*>> taken(streams.size());
  std::vector<std::shared_ptr<const std::string>> alive;  // so that no address is used again
  for (int i = 0; i < kChanges; ++i) {
    cluster_.Open(0, {{.id = 10U + static_cast<std::uint64_t>(i), .to = 2, .job = "A"}});
    Refresh();
    for (std::size_t client = 0; client < streams.size(); ++client) {
      while (auto piece = streams[client]->Next()) {
        EXPECT_TRUE(piece->starts_with("event: update\n"));
        taken[client].push_back(piece.get());
        alive.push_back(std::move(piece));
      }
    }
  }
  for (const auto& of_client : taken) EXPECT_EQ(of_client, taken.front());
  const int changes = static_cast<int>(taken.front().size());
  EXPECT_GE(changes, kChanges);
  EXPECT_EQ(Count("espalier_controller_feed_updates_total"), changes);
  EXPECT_EQ(Count("espalier_controller_feed_snapshots_total"), 1);
  EXPECT_EQ(Count("espalier_controller_feed_pieces_total"),
            static_cast<int>(LiveFeed::kMostClients) * (changes + 1));
}

TEST_F(LiveApiTest, ASlowClientCatchesUpOrIsGivenTheWholeState) {
  const auto behind = Connect();
  const auto far_behind = Connect();
  Take(*behind);
  Take(*far_behind);
  const auto change = [&](std::uint64_t id) {
    cluster_.Open(0, {{.id = id, .to = 2, .job = "A"}});
    Refresh();
    cluster_.End(0, id);
    Refresh();
  };
  for (std::uint64_t id = 10; id < 15; ++id) change(id);
  std::set<std::string> open;
  for (Event update = Take(*behind); !update.name.empty(); update = Take(*behind)) {
    EXPECT_EQ(update.name, "update");
    if (const JsonValue* ended = update.data.Find("ended")) {
      for (const JsonValue& name : ended->items) EXPECT_EQ(open.erase(name.text), 1U);
    }
    open.merge(Names(update.data, "flows", "flow"));
  }
  EXPECT_TRUE(open.empty());
  for (std::uint64_t id = 20; id < 20 + LiveJournal::kMostUpdates; ++id) change(id);
  cluster_.Open(0, {{.id = 99, .to = 2, .job = "A"}});
  Refresh();
  const Event whole = Take(*far_behind);
  EXPECT_EQ(whole.name, "snapshot");
  EXPECT_EQ(Names(whole.data, "flows", "flow"), (std::set<std::string>{"h0:5", "h1:6", "h0:99"}));
  EXPECT_EQ(far_behind->Next(), nullptr);
}

TEST_F(LiveApiTest, ManyNewcomersAreGivenOneWholeStateAndWhatCameSince) {
  const auto first = Connect();
  EXPECT_EQ(Take(*first).name, "snapshot");
  cluster_.Open(0, {{.id = 10, .to = 2, .job = "A"}});
  Refresh();
  const auto second = Connect();
  EXPECT_EQ(Take(*second).name, "snapshot");
  const Event since = Take(*second);
  EXPECT_EQ(since.name, "update");
  EXPECT_EQ(Names(since.data, "flows", "flow").count("h0:10"), 1U);
  EXPECT_EQ(second->Next(), nullptr);
  EXPECT_EQ(Count("espalier_controller_feed_snapshots_total"), 1);
}

TEST_F(LiveApiTest, WhoeverComesAfterAPauseSeesThePresent) {
  Take(*Connect());
  Refresh();  // nobody looks any more
  cluster_.End(0, 5);
  cluster_.Open(2, {{.id = 7, .to = 0, .job = "A"}});
  cluster_.Settle();
  const auto stream = Connect();
  const Event whole = Take(*stream);
  EXPECT_EQ(whole.name, "snapshot");
  EXPECT_EQ(Names(whole.data, "flows", "flow"), (std::set<std::string>{"h1:6", "h2:7"}));
}

TEST_F(LiveApiTest, TellsOfARateAloneInAFewWords) {
  const JsonValue description = Description();
  const auto stream = Connect();
  Take(*stream);
  const auto progress = [&](std::uint64_t bps) {
    wire::FlowReport report;
    report.progress = {{.id = wire::LocalFlowId(5), .achieved_bps = bps}};
    cluster_.Report(0, report);
    cluster_.Settle();
    Refresh();
    return Take(*stream);
  };
  const Event update = progress(50'000'000'000);
  EXPECT_EQ(
      Violation(description, *description.Find("components")->Find("schemas")->Find("LiveUpdate"),
                update.data, "update"),
      "");
  EXPECT_EQ(update.data.Find("flows"), nullptr);
  ASSERT_NE(update.data.Find("rates"), nullptr);
  ASSERT_EQ(update.data.Find("rates")->items.size(), 1U);
  EXPECT_EQ(update.data.Find("rates")->items[0].Find("flow")->text, "h0:5");
  const double told = std::stod(update.data.Find("rates")->items[0].Find("achieved_bps")->text);
  EXPECT_NEAR(told, 50e9, 50e9 / 8);
  EXPECT_EQ(progress(50'100'000'000).data.Find("rates"), nullptr) << "nearly the same";
}

TEST_F(LiveApiTest, LimitsStreamsAndForgetsThoseThatLeft) {
  std::vector<std::shared_ptr<io::HttpStream>> streams;
  for (std::size_t i = 0; i < LiveFeed::kMostClients; ++i) streams.push_back(Connect());
  EXPECT_EQ(Call("GET", "/api/v1/stream").status, 429);
  streams.pop_back();
  EXPECT_NE(Connect(), nullptr);
}

TEST_F(LiveApiTest, AStreamOutlivesItsFeed) {
  std::shared_ptr<io::HttpStream> stream;
  {
    LiveFeed feed(cluster_.controller(), metrics_);
    stream = feed.Connect();
  }
  EXPECT_EQ(stream->Next(), nullptr);
}

TEST_F(LiveApiTest, PagesOfOtherSitesCannotAct) {
  const std::map<std::string, std::string> link = {{"id", "leaf0--spine0"}};
  const auto from = [&](const std::string& origin) {
    return Call("POST", "/api/v1/links/fail", link,
                {{"host", "127.0.0.1:9180"}, {"origin", origin}})
        .status;
  };
  EXPECT_EQ(from("http://evil.example"), 403);
  EXPECT_EQ(from("null"), 403);
  EXPECT_EQ(from("http://127.0.0.1:9181"), 403);
  EXPECT_EQ(cluster_.state().topology.version(), 1);
  EXPECT_EQ(from("http://127.0.0.1:9180"), 200);
}

TEST_F(LiveApiTest, ServesThePageWithAStrictPolicy) {
  const io::HttpResponse page = Call("GET", "/");
  EXPECT_EQ(page.status, 200);
  EXPECT_TRUE(page.content_type.starts_with("text/html"));
  const std::map<std::string, std::string> headers(page.headers.begin(), page.headers.end());
  EXPECT_TRUE(headers.at("Content-Security-Policy").starts_with("default-src 'none'"));
  EXPECT_EQ(headers.at("Content-Security-Policy").find("unsafe"), std::string::npos);
  EXPECT_EQ(headers.at("X-Content-Type-Options"), "nosniff");
  EXPECT_EQ(page.body.find("://"), std::string::npos) << "it works offline";
  for (const char* path : {"/../etc/passwd", "/nothing.js", "//", "/index.html"}) {
    EXPECT_EQ(Call("GET", path).status, 404) << path;
  }
}

TEST_F(LiveApiTest, TimesTheRoundsOfAJobAgainstTheIdeal) {
  const auto progress = [&](int host, std::uint64_t id, std::uint64_t remaining) {
    wire::FlowReport report;
    report.progress = {{.id = wire::LocalFlowId(id), .remaining_bytes = remaining}};
    cluster_.Report(host, report);
    cluster_.Settle();
  };
  progress(0, 5, 0);  // of what it began with
  cluster_.Advance(std::chrono::milliseconds(100));
  for (int round = 0; round < 3; ++round) {
    progress(0, 5, 12'500'000);  // 1 ms at 100 Gbit/s
    cluster_.Advance(std::chrono::milliseconds(4));
    progress(0, 5, 0);
    cluster_.Advance(std::chrono::milliseconds(10));  // a pause within the round
    progress(0, 5, 12'500'000);
    cluster_.Advance(std::chrono::milliseconds(6));
    progress(0, 5, 0);
    cluster_.Advance(std::chrono::milliseconds(100));
  }
  const JsonValue jobs = Parse(Call("GET", "/api/v1/jobs").body);
  const JsonValue& job = jobs.Find("jobs")->items[0];
  EXPECT_EQ(job.Find("job")->text, "A");
  EXPECT_EQ(job.Find("rounds")->text, "4");
  EXPECT_FALSE(job.Find("in_round")->boolean);
  const JsonValue& last = job.Find("history")->items.back();
  EXPECT_NEAR(std::stod(last.Find("ideal_seconds")->text), 0.002, 1e-6);
  EXPECT_NEAR(std::stod(last.Find("seconds")->text), 0.020, 0.001);
}

}  // namespace
}  // namespace espalier::controller
