// Tests the history of a running controller: what is recorded, and what the API answers.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>

#include "controller/api/history/history_recorder.h"
#include "tests/controller/api/operator_api_fixture.h"

namespace espalier::controller {
namespace {

using namespace std::chrono_literals;

class HistoryViewsTest : public OperatorApiFixture {
 protected:
  io::JsonValue Get(const std::string& view, std::map<std::string, std::string> query = {}) {
    const io::HttpResponse answer = Call("GET", "/api/v1/history" + view, std::move(query));
    EXPECT_EQ(answer.status, 200) << answer.body;
    return Json(answer);
  }
  std::string Refused(int status, const std::string& view,
                      std::map<std::string, std::string> query) {
    const io::HttpResponse answer = Call("GET", "/api/v1/history" + view, std::move(query));
    EXPECT_EQ(answer.status, status) << view << answer.body;
    return answer.body;
  }
  static const std::vector<io::JsonValue>& Samples(const io::JsonValue& history) {
    return history.Find("samples")->items;
  }
  static std::string Text(const io::JsonValue& object, const char* key) {
    return object.Find(key)->text;
  }
};

TEST_F(HistoryViewsTest, ShowsALinkBeforeAndAfterItFailed) {
  cluster_.Advance(5s);
  Call("POST", "/api/v1/links/fail", {{"id", "leaf0--spine0"}});
  cluster_.Advance(5s);
  const auto samples = Samples(Get("/link", {{"id", "leaf0--spine0"}}));
  ASSERT_GE(samples.size(), 8U);
  EXPECT_EQ(Text(samples.front(), "state"), "UP");
  EXPECT_EQ(Text(samples.front(), "load_a_to_b"), "1.0");
  EXPECT_EQ(Text(samples.back(), "state"), "DOWN");
  EXPECT_EQ(Text(samples.back(), "load_a_to_b"), "0.0");
  // The whole fabric at both times.
  const io::JsonValue then = Get("/moment", {{"time", "-7s"}});
  EXPECT_EQ(Text(*then.Find("fabric"), "max_load"), "1.0");
  EXPECT_EQ(Text(*then.Find("fabric"), "links_not_up"), "0");
  EXPECT_EQ(Text(*then.Find("fabric"), "flows"), "2");
  ASSERT_EQ(then.Find("jobs")->items.size(), 1U);
  EXPECT_EQ(Text(then.Find("jobs")->items[0], "job"), "A");
  const io::JsonValue now = Get("/moment");
  EXPECT_EQ(Text(*now.Find("fabric"), "links_not_up"), "1");
  EXPECT_EQ(Text(*now.Find("fabric"), "max_load"), "2.0");
}

// The bound of ten seconds ago said so after every failure.
TEST_F(HistoryViewsTest, CallsNoLoadAvoidableByAnOldBound) {
  cluster_.Advance(5s);
  Call("POST", "/api/v1/links/fail", {{"id", "leaf0--spine0"}});
  cluster_.Advance(4s);
  const io::JsonValue history = Get("");
  for (const io::JsonValue& sample : Samples(history)) {
    EXPECT_EQ(Text(sample, "max_load"), Text(sample, "lower_bound")) << Text(sample, "time");
  }
}

TEST_F(HistoryViewsTest, CountsFailuresActionsAndMovesWhereTheyHappened) {
  cluster_.Advance(3s);
  Call("POST", "/api/v1/links/fail", {{"id", "leaf0--spine0"}});
  cluster_.Advance(2s);
  Call("POST", "/api/v1/links/restore", {{"id", "leaf0--spine0"}});
  cluster_.Advance(2s);
  int failures = 0;
  int actions = 0;
  int moves = 0;
  const io::JsonValue history = Get("");
  for (const io::JsonValue& sample : Samples(history)) {
    failures += std::stoi(Text(sample, "failures"));
    actions += std::stoi(Text(sample, "actions"));
    moves += std::stoi(Text(sample, "moves"));
  }
  EXPECT_EQ(failures, 1);
  EXPECT_EQ(actions, 2);
  EXPECT_EQ(moves,
            static_cast<int>(cluster_.controller().state().push_log.entries().back().sequence));
}

TEST_F(HistoryViewsTest, ShowsTheSlowestFlowsOfAMoment) {
  cluster_.Advance(3s);
  const auto live = Json(Call("GET", "/api/v1/flows")).Find("flows")->items;
  const io::JsonValue moment = Get("/moment");
  const auto& flows = moment.Find("flows")->items;
  ASSERT_EQ(flows.size(), live.size());
  for (const io::JsonValue& flow : flows) {
    EXPECT_EQ(Text(flow, "job"), "A");
    EXPECT_EQ(Text(flow, "status"), "ROUTED");
    EXPECT_GE(std::stoi(Text(flow, "source_port")), 49152);
    EXPECT_EQ(flow.Find("hops")->items.size(), 2U);
    EXPECT_TRUE(std::ranges::any_of(live, [&](const io::JsonValue& one) {
      return Text(one, "source") == Text(flow, "source") &&
             Text(one, "destination") == Text(flow, "destination");
    }));
  }
}

TEST_F(HistoryViewsTest, KnowsTheRoundsOfAJob) {
  EXPECT_TRUE(Samples(Get("/job", {{"id", "unknown"}})).empty());
  cluster_.Advance(2s);
  const auto samples = Samples(Get("/job", {{"id", "A"}}));
  ASSERT_FALSE(samples.empty());
  EXPECT_EQ(Text(samples.back(), "flows"), "2");
  cluster_.End(0, 5);
  cluster_.End(1, 6);
  cluster_.Advance(3s);
  EXPECT_NE(Text(Samples(Get("")).back(), "time"),
            Text(Samples(Get("/job", {{"id", "A"}})).back(), "time"));
}

TEST_F(HistoryViewsTest, GivesTheSpanAndResolutionThatAreAskedFor) {
  cluster_.Advance(125s);
  EXPECT_EQ(Samples(Get("", {{"from", "-1h"}, {"resolution", "60"}})).size(), 2U);
  const io::JsonValue tens = Get("", {{"from", "-1h"}, {"resolution", "10"}});
  EXPECT_EQ(Text(tens, "resolution_seconds"), "10");
  EXPECT_GE(Samples(tens).size(), 11U);
  EXPECT_LE(Samples(tens).size(), 13U);
  const std::size_t seconds = Samples(Get("", {{"from", "-20s"}, {"to", "-10s"}})).size();
  EXPECT_GE(seconds, 10U);
  EXPECT_LE(seconds, 12U);
  EXPECT_GT(std::stoll(Text(tens, "bytes")), 0);
  EXPECT_GE(std::stoll(Text(tens, "bytes_when_full")), std::stoll(Text(tens, "bytes")));
}

TEST_F(HistoryViewsTest, RefusesWhatItCannotAnswer) {
  EXPECT_NE(Refused(404, "/moment", {{"time", "-1h"}}).find("no history yet"), std::string::npos);
  cluster_.Advance(2s);
  EXPECT_NE(Refused(404, "/moment", {{"time", "-1h"}}).find("begins at"), std::string::npos);
  EXPECT_NE(Refused(400, "/moment", {{"time", "yesterday"}}).find("time: "), std::string::npos);
  EXPECT_NE(Refused(400, "", {{"resolution", "7"}}).find("give 1, 10 or 60"), std::string::npos);
  EXPECT_NE(Refused(400, "", {{"from", "-1m"}, {"to", "-2m"}}).find("after `from`"),
            std::string::npos);
  EXPECT_NE(Refused(400, "", {{"from", "-x"}}).find("from: "), std::string::npos);
  EXPECT_NE(Refused(404, "/link", {{"id", "nosuch"}}).find("espalier links"), std::string::npos);
}

TEST_F(HistoryViewsTest, RecordsNothingWithoutABudget) {
  Metrics metrics;
  const HistoryRecorder recorder(cluster_.controller(), metrics, 0);
  cluster_.Advance(3s);
  EXPECT_EQ(recorder.history().used_bytes(), 0U);
  EXPECT_EQ(recorder.history().oldest(), std::nullopt);
}

}  // namespace
}  // namespace espalier::controller
