#include "controller/api/views/forest_view.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/controller/api/live_api_fixture.h"

namespace espalier::controller {
namespace {

class ForestViewTest : public LiveApiTest {};

TEST_F(ForestViewTest, ShowsJobsAndTheirPlansByName) {
  const Controller& controller = cluster_.controller();
  EXPECT_EQ(ForestsView(controller), R"({"forests":[]})");
  const auto unknown = ForestPlanView(controller, "train");
  ASSERT_FALSE(unknown.has_value());
  EXPECT_EQ(unknown.error().code, ErrorCode::kNotFound);
  EXPECT_NE(unknown.error().message.find("\"train\""), std::string::npos);
  ASSERT_TRUE(cluster_.StartJob({.name = "train", .ranks = {"h0", "h2"}, .user = ""}));
  cluster_.Advance(std::chrono::seconds(1));
  const auto forests = Parse(ForestsView(controller));
  ASSERT_EQ(forests.Find("forests")->items.size(), 1U);
  EXPECT_EQ(forests.Find("forests")->items[0].Find("job")->text, "train");
  const auto plan = Parse(ForestPlanView(controller, "train").value());
  EXPECT_EQ(plan.Find("job")->text, "train");
  EXPECT_NE(plan.Find("plan")->text, "0");
  EXPECT_FALSE(plan.Find("edges")->items.empty());
  EXPECT_FALSE(plan.Find("trees")->items.empty());
}

}  // namespace
}  // namespace espalier::controller
