#include "controller/api/prediction_views.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "controller/api/link_reports.h"
#include "tests/controller/api/operator_api_fixture.h"

namespace espalier::controller {
namespace {

class PredictionViewsTest : public OperatorApiFixture {};

TEST_F(PredictionViewsTest, ShowsPredictedStarts) {
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
  EXPECT_EQ(explained.Find("flow")->Find("origin")->text, "PREDICTED");
}

TEST_F(PredictionViewsTest, AcceptsATelemetryFeed) {
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

TEST_F(PredictionViewsTest, AcceptsASchedule) {
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

// Errors in a feed or a schedule that was written by hand name the line and the key.
TEST_F(PredictionViewsTest, ErrorsNameTheLineAndWhatIsWrong) {
  Controller& controller = cluster_.controller();
  const std::string good = R"({"link": "leaf0--spine0", "up": true})";
  const auto handle = [&](const std::string& lines) {
    Result<std::string> answer = Fail(ErrorCode::kUnavailable, "no answer");
    HandleLinkReports(controller, lines,
                      [&](Result<std::string> body) { answer = std::move(body); });
    return answer;
  };
  const auto line = handle(good + "\n\n" + R"({"link": "x", "up": 1})");
  ASSERT_FALSE(line.has_value());
  EXPECT_EQ(line.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(line.error().message.find('3'), std::string::npos) << line.error().message;
  EXPECT_NE(line.error().message.find("up"), std::string::npos) << line.error().message;
  const auto unknown = handle(R"({"link": "x", "up": true})");
  ASSERT_FALSE(unknown.has_value());
  EXPECT_EQ(unknown.error().code, ErrorCode::kNotFound);
  EXPECT_NE(unknown.error().message.find('x'), std::string::npos);
  EXPECT_TRUE(handle(good).has_value());
  EXPECT_TRUE(handle("").has_value());
  const auto nic = DeclareSchedule(controller, R"({"job": "B", "flows": [["h0", "h99"]]})");
  ASSERT_FALSE(nic.has_value());
  EXPECT_NE(nic.error().message.find("h99"), std::string::npos) << nic.error().message;
}

// A feed may report each link of a large fabric many times at once.
TEST_F(PredictionViewsTest, ManyLinkReportsLeaveTheLoopToOthersInBetween) {
  std::string lines;
  for (int i = 0; i < 4'096; ++i) {
    lines += fmt::format("{{\"link\": \"leaf0--spine0\", \"up\": {}}}\n", i % 2 == 0);
  }
  std::optional<Result<std::string>> answer;
  cluster_.cost_of_look = kSliceOfReports / 4;
  HandleLinkReports(cluster_.controller(), lines,
                    [&](Result<std::string> body) { answer = std::move(body); });
  int slices = 1;
  for (; !answer && slices < 10'000; ++slices) cluster_.RunOne();
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(answer->value(), R"({"taken":4096})");
  EXPECT_GE(slices, 64);
  // One wrong line, the last: nothing is applied.
  const auto state = [&] { return cluster_.state().topology.version(); };
  const auto before = state();
  answer.reset();
  HandleLinkReports(cluster_.controller(), lines + "wrong",
                    [&](Result<std::string> body) { answer = std::move(body); });
  for (int i = 0; !answer && i < 10'000; ++i) cluster_.RunOne();
  ASSERT_TRUE(answer.has_value());
  EXPECT_FALSE(answer->has_value());
  EXPECT_EQ(state(), before);
}

}  // namespace
}  // namespace espalier::controller
