#include "controller/api/actions/schedule_request.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "tests/controller/api/operator_api_fixture.h"

namespace espalier::controller {
namespace {

class ScheduleRequestTest : public OperatorApiFixture {};

TEST_F(ScheduleRequestTest, AcceptsASchedule) {
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

TEST_F(ScheduleRequestTest, AnErrorNamesTheUnknownNode) {
  const auto nic =
      DeclareSchedule(cluster_.controller(), R"({"job": "B", "flows": [["h0", "h99"]]})");
  ASSERT_FALSE(nic.has_value());
  EXPECT_NE(nic.error().message.find("h99"), std::string::npos) << nic.error().message;
}

}  // namespace
}  // namespace espalier::controller
