// Tests that the API matches its description, and that the live feed matches the views.
#include "tests/controller/api/live_api_fixture.h"

namespace espalier::controller {
namespace {

TEST_F(LiveApiTest, EveryRouteOfTheDescriptionAnswersAsItSays) {
  const JsonValue description = Description();
  cluster_.Advance(std::chrono::seconds(2));  // of history
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
      // (An empty feed of link states is one without reports; the other feeds need a body.)
      const bool needs_body = path == "/api/v1/links/load" || path == "/api/v1/flows/seen";
      const JsonValue* const request = needs_body ? operation.Find("requestBody") : nullptr;
      const std::string body =
          needs_body ? request->Find("content")->members[0].second.Find("example")->text : "";
      const io::HttpResponse answer = Call(method == "get" ? "GET" : "POST", path, query, {}, body);
      const JsonValue* const stated =
          operation.Find("responses")->Find(std::to_string(answer.status));
      ASSERT_NE(stated, nullptr) << path << " " << answer.status << " " << answer.body;
      const auto& [type, content] = Resolve(description, *stated).Find("content")->members.front();
      EXPECT_TRUE(answer.content_type.starts_with(type)) << path << " " << answer.content_type;
      if (type != "application/json") continue;
      EXPECT_EQ(Violation(description, *content.Find("schema"), Parse(answer.body), path), "");
      if (path.find("restore") == std::string::npos && path.find("undrain") == std::string::npos &&
          path.find("rollback") == std::string::npos && path.find("reset") == std::string::npos &&
          path.find("steering/") == std::string::npos &&  // not all parameters at once
          !path.ends_with("/discover") &&                 // none of these agents can probe
          path.find("/apply") == std::string::npos && path.find("/cancel") == std::string::npos &&
          path.find("jobs/") == std::string::npos && path.find("forests/") == std::string::npos &&
          path != "/api/v1/login") {
        EXPECT_EQ(answer.status, 200) << path << " " << answer.body;
      }
    }
  }
  EXPECT_GE(routes, 46);
}

// Two flows of TCP. The other end of the second one says nothing of its return path.
TEST_F(LiveApiTest, ReturnsOfTcpFlowsAreExplainedAsTheDescriptionSays) {
  cluster_.host(3).answers_probes = false;
  for (int host = 0; host < 2; ++host) {
    wire::FlowReport report = Cluster::Opening(cluster_, host, {{.id = 9, .to = host + 2}});
    report.opened[0].protocol = wire::kProtocolTcp;
    report.opened[0].destination_port = 5'201;
    cluster_.Report(host, report);
  }
  cluster_.Advance(std::chrono::seconds(5));
  const JsonValue description = Description();
  const JsonValue& schema = *description.Find("components")->Find("schemas")->Find("Explanation");
  const auto explain = [&](const char* flow) {
    const JsonValue answer = Parse(Call("GET", "/api/v1/flows/explain", {{"flow", flow}}).body);
    EXPECT_EQ(Violation(description, schema, answer, flow), "");
    return answer;
  };
  EXPECT_EQ(explain("h0:5").Find("returns"), nullptr) << "not of TCP";
  const JsonValue known = explain("h0:9");
  ASSERT_EQ(known.Find("returns")->items.size(), 1U);
  const JsonValue& back = known.Find("returns")->items[0];
  const std::uint16_t port = cluster_.FlowOf(0, 9).subflows[0].port;
  EXPECT_EQ(back.Find("via")->text, known.Find("flow")->Find("via")->text);
  EXPECT_EQ(back.Find("source_port")->text, std::to_string(port));
  EXPECT_EQ(back.Find("return_via")->text, fmt::format("spine{}", cluster_.SpineBack(2, 0, port)));
  EXPECT_EQ(back.Find("return_state")->text, "UP");
  const JsonValue unknown = explain("h1:9");
  ASSERT_EQ(unknown.Find("returns")->items.size(), 1U);
  EXPECT_EQ(unknown.Find("returns")->items[0].Find("return_via")->text, "");
  EXPECT_EQ(unknown.Find("returns")->items[0].Find("return_state")->text, "UNKNOWN");
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
  // Every rank is the root of trees in both directions; all edges belong to trees.
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

TEST_F(LiveApiTest, EdgesOfForestsAreListedBehindTheFlowsOfTheirAgents) {
  ASSERT_TRUE(cluster_.StartJob({.name = "train", .ranks = {"h0", "h2"}}).has_value());
  cluster_.Settle();
  std::vector<std::string> all;  // of h0, h1 and h2, which have flows, edges, or both
  for (const char* name : {"h0:5", "h1:6"}) {
    all.emplace_back(name);
    for (const auto& [edge, reserved] : cluster_.state().edges.all()) {
      const std::string& agent = cluster_.state().agents.At(edge.agent).name;
      if (all.back().starts_with(agent)) {
        all.push_back(cluster_.state().FlowName(edge.agent, edge.number));
      }
    }
  }
  for (const auto& [edge, reserved] : cluster_.state().edges.all()) {
    const std::string name = cluster_.state().FlowName(edge.agent, edge.number);
    if (name.starts_with("h2:")) all.push_back(name);
  }
  ASSERT_EQ(all.size(), 2 + cluster_.state().edges.all().size());
  std::vector<std::string> paged;
  for (std::string after, next = "first"; !next.empty(); after = next) {
    const JsonValue page =
        Parse(Call("GET", "/api/v1/flows", {{"limit", "1"}, {"after", after}}).body);
    ASSERT_EQ(page.Find("flows")->items.size(), 1U);
    paged.push_back(page.Find("flows")->items[0].Find("flow")->text);
    next = page.Find("next") != nullptr ? page.Find("next")->text : "";
  }
  EXPECT_EQ(paged, all);
  const JsonValue edge = Parse(Call("GET", "/api/v1/flows/explain", {{"flow", all[1]}}).body);
  EXPECT_EQ(edge.Find("flow")->Find("job")->text, "train");
  EXPECT_EQ(edge.Find("flow")->Find("acknowledged")->boolean, true);
  EXPECT_EQ(edge.Find("ends_known")->boolean, false);
  EXPECT_EQ(edge.Find("port_trust")->text, "VERIFIED");
  EXPECT_EQ(Call("GET", "/api/v1/flows/explain", {{"flow", all[1] + "0"}}).status, 404);
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

}  // namespace
}  // namespace espalier::controller
