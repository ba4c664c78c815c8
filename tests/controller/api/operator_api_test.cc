#include "controller/api/operator_api.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "tests/controller/api/operator_api_fixture.h"

namespace espalier::controller {
namespace {

using OperatorApiTest = OperatorApiFixture;

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

TEST_F(OperatorApiTest, TellsWhichPathAPortTakesNow) {
  const auto answer = Json(
      Call("POST", "/api/v1/probe", {{"source", "h0"}, {"destination", "h2"}, {"ports", "4"}}));
  EXPECT_EQ(answer.Find("paths")->text, "2");
  ASSERT_EQ(answer.Find("ports")->items.size(), 4U);
  for (const io::JsonValue& port : answer.Find("ports")->items) {
    const auto number = static_cast<std::uint16_t>(std::stoi(port.Find("port")->text));
    EXPECT_EQ(port.Find("via")->text, "spine" + std::to_string(cluster_.SpineOf(0, 2, number)));
    EXPECT_EQ(port.Find("links")->items.size(), 2U);
    EXPECT_EQ(std::stoi(port.Find("flow_label")->text), number - 0xC000);
    EXPECT_EQ(port.Find("weight")->text, "0.5");  // each spine carries a flow
  }
  const auto one =
      Call("POST", "/api/v1/probe", {{"source", "h0"}, {"destination", "h2"}, {"port", "50000"}});
  EXPECT_EQ(Json(one).Find("ports")->items.size(), 1U);
  const auto status = [&](std::map<std::string, std::string> query) {
    return Call("POST", "/api/v1/probe", std::move(query)).status;
  };
  EXPECT_EQ(status({{"source", "h0"}, {"destination", "nowhere"}}), 404);
  EXPECT_EQ(status({{"source", "h0"}, {"destination", "h1"}}), 409) << "behind the same leaf";
  EXPECT_EQ(status({{"source", "h0"}, {"destination", "h2"}, {"ports", "65"}}), 400);
  EXPECT_EQ(status({{"source", "h0"}, {"destination", "h2"}, {"port", "65536"}}), 400);
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

// Regression: line breaks and escape sequences went into the log and to terminals.
TEST_F(OperatorApiTest, RefusesTextThatIsNotPrintable) {
  for (const char* text : {"a\nevent=forged", "\x1b[2J", "\xc2\x9b", "\xff", "a\x7f"}) {
    EXPECT_EQ(
        Call("POST", "/api/v1/links/fail", {{"id", "leaf0--spine0"}, {"reason", text}}).status,
        400);
  }
  const auto report = [&](const std::string& source) {
    return Call("POST", "/api/v1/links/report", {},
                R"({"link": "leaf0--spine0", "up": false, "source": ")" + source + "\"}")
        .status;
  };
  EXPECT_EQ(report("a\\nevent=forged"), 400);
  EXPECT_EQ(report("\\u001b[2J"), 400);
  EXPECT_EQ(cluster_.state().topology.version(), 1);
  EXPECT_EQ(report("schalter ä"), 200);
}

TEST_F(OperatorApiTest, StrangersShareTheReadinessOfHalfASecond) {
  const auto readiness = [&](bool from_unix_socket) {
    std::string body;
    api_.Handle({.method = "GET", .path = "/readyz", .from_unix_socket = from_unix_socket},
                [&](const io::HttpResponse& answer) { body = answer.body; });
    return body;
  };
  const std::string before = readiness(false);
  EXPECT_EQ(readiness(true), before);
  cluster_.Advance(std::chrono::milliseconds(600));
  EXPECT_EQ(readiness(false), before);
  EXPECT_EQ(Call("POST", "/api/v1/links/fail", {{"id", "leaf0--spine0"}}).status, 200);
  EXPECT_EQ(readiness(false), before);
  cluster_.Advance(std::chrono::milliseconds(600));
  EXPECT_NE(readiness(false), before);
}

TEST_F(OperatorApiTest, RefusesUnknownKinds) {
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
