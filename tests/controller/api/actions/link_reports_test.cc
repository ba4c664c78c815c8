#include "controller/api/actions/link_reports.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>

#include "tests/controller/api/operator_api_fixture.h"

namespace espalier::controller {
namespace {

class LinkReportsTest : public OperatorApiFixture {};

TEST_F(LinkReportsTest, AcceptsATelemetryFeed) {
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

// Errors in a feed that was written by hand name the line and the key.
TEST_F(LinkReportsTest, ErrorsNameTheLineAndWhatIsWrong) {
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
}

// A feed may report each link of a large fabric many times at once.
TEST_F(LinkReportsTest, ManyLinkReportsLeaveTheLoopToOthersInBetween) {
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
