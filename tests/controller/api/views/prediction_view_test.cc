#include "controller/api/views/prediction_view.h"

#include <gtest/gtest.h>

#include "tests/controller/api/operator_api_fixture.h"

namespace espalier::controller {
namespace {

class PredictionViewTest : public OperatorApiFixture {};

TEST_F(PredictionViewTest, ShowsPredictedStarts) {
  cluster_.End(0, 5);
  cluster_.Advance(std::chrono::seconds(1));
  cluster_.Open(0, {{.id = 7, .to = 2, .job = "A"}});
  cluster_.Advance(std::chrono::seconds(1));
  const auto answer = Json(Call("GET", "/api/v1/predict"));
  ASSERT_EQ(answer.Find("predict")->items.size(), 1U);
  const auto& job = answer.Find("predict")->items[0];
  EXPECT_EQ(job.Find("job")->text, "A");
  EXPECT_TRUE(job.Find("on")->boolean);
  EXPECT_EQ(job.Find("bursts")->text, "0");  // these flows report no edges
  EXPECT_EQ(answer.Find("failure_plans")->Find("fresh")->text,
            answer.Find("failure_plans")->Find("loaded")->text);
  const auto explained = Json(Call("GET", "/api/v1/flows/explain", {{"flow", "h0:7"}}));
  EXPECT_EQ(explained.Find("flow")->Find("origin")->text, "PREDICTED");
}

}  // namespace
}  // namespace espalier::controller
