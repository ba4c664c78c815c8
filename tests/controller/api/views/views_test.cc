#include "controller/api/views/views.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/controller/api/operator_api_fixture.h"

namespace espalier::controller {
namespace {

class ViewsTest : public OperatorApiFixture {
 protected:
  io::JsonValue Parsed(const std::string& text) { return Json({.status = 200, .body = text}); }
};

TEST_F(ViewsTest, ShowsTheStateAsJson) {
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

TEST_F(ViewsTest, TheLiveStatusUsesTheCountedFlows) {
  const Controller& controller = cluster_.controller();
  const FlowStatistics census = FlowStatistics::Take(controller.state());
  const auto live = Parsed(LiveStatus(controller, census, {}));
  const auto status = Parsed(StatusView(controller));
  for (const char* key : {"flows", "agents_connected"}) {
    ASSERT_NE(live.Find(key), nullptr) << key;
    EXPECT_EQ(live.Find(key)->text, status.Find(key)->text) << key;
  }
}

TEST_F(ViewsTest, AnOutcomeListsAndCountsMoves) {
  ActionOutcome outcome;
  outcome.version = 4;
  outcome.revision = 7;
  outcome.forests = 2;
  outcome.moves.resize(2);
  outcome.moves[0].bytes_in_flight = 300;
  outcome.moves[1].bytes_in_flight = 4;
  for (const bool dry_run : {false, true}) {
    const auto view = Parsed(OutcomeView(outcome, dry_run));
    EXPECT_EQ(view.Find("dry_run")->boolean, dry_run);
    EXPECT_EQ(view.Find("version")->text, "4");
    EXPECT_EQ(view.Find("revision")->text, "7");
    EXPECT_EQ(view.Find("moved")->text, "2");
    EXPECT_EQ(view.Find("moved_bytes")->text, "304");
    EXPECT_EQ(view.Find("forests")->text, "2");
    EXPECT_EQ(view.Find("moves")->items.size(), 2U);
  }
}

TEST_F(ViewsTest, TheAuditLogShowsTheResultOfEachAction) {
  std::vector<AuditEntry> entries(3);
  entries[0].result = AuditResult::kRefused;
  entries[0].detail = "there is no such \"link\"";
  entries[1].result = AuditResult::kDone;
  entries[1].until = WallTime(std::chrono::seconds(1'795'253'938));
  entries[1].moves = {{"h0:1", "job", "spine0", ""}};
  const auto view = Parsed(AuditView(entries));
  const auto& audit = view.Find("audit")->items;
  ASSERT_EQ(audit.size(), 3U);
  EXPECT_EQ(audit[0].Find("result")->text, "REFUSED");
  EXPECT_EQ(audit[0].Find("detail")->text, entries[0].detail);
  EXPECT_EQ(audit[0].Find("until")->text, "");
  EXPECT_EQ(audit[1].Find("result")->text, "DONE");
  EXPECT_EQ(audit[1].Find("until")->text, FormatWallTime(*entries[1].until));
  EXPECT_EQ(audit[1].Find("moved")->text, "1");
  EXPECT_EQ(audit[1].Find("moves")->items[0].Find("from")->text, "spine0");
  EXPECT_EQ(audit[2].Find("result")->text, "UNFINISHED");
  EXPECT_TRUE(Parsed(AuditView({})).Find("audit")->items.empty());
}

}  // namespace
}  // namespace espalier::controller
