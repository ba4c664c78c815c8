#include "controller/api/fabric_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/controller/four_flows.h"

namespace espalier::controller {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class FabricMetricsTest : public testing::Test {
 protected:
  FabricMetricsTest() {
    cluster_.ConnectAll();
    OpenFourFlows(cluster_);
  }
  std::string Text() {
    metrics_.Refresh(cluster_.controller());
    return registry_.Text();
  }

  Cluster cluster_{kFourLeaves};
  Metrics registry_;
  FabricMetrics metrics_{registry_};
};

TEST_F(FabricMetricsTest, EachLinkBetweenSwitchesHasItsLoadAndState) {
  const std::string text = Text();
  // Each of the four flows has a spine of its own, from the first leaf to the second.
  for (const char* spine : {"spine0", "spine1", "spine2", "spine3"}) {
    EXPECT_THAT(text, HasSubstr(std::string("espalier_link_load{link=\"leaf0--") + spine +
                                "\",to=\"" + spine + "\"} 1"));
    EXPECT_THAT(text, HasSubstr(std::string("espalier_link_load{link=\"leaf1--") + spine +
                                "\",to=\"" + spine + "\"} 0"));
  }
  EXPECT_THAT(text, HasSubstr("espalier_link_state{link=\"leaf0--spine0\"} 0"));
  EXPECT_THAT(text, Not(HasSubstr("h0--leaf0")));
}

TEST_F(FabricMetricsTest, ALinkOfAHostIsShownWhileItIsNotUp) {
  ASSERT_TRUE(cluster_.ChangeLink("h0--leaf0", IntentAction::kFail));
  ASSERT_TRUE(cluster_.ChangeLink("leaf0--spine1", IntentAction::kDrain));
  const std::string text = Text();
  EXPECT_THAT(text, HasSubstr("espalier_link_state{link=\"h0--leaf0\"} 3"));
  EXPECT_THAT(text, HasSubstr("espalier_link_state{link=\"leaf0--spine1\"} 2"));
  ASSERT_TRUE(cluster_.ChangeLink("h0--leaf0", IntentAction::kRestore));
  EXPECT_THAT(Text(), Not(HasSubstr("h0--leaf0")));
}

TEST_F(FabricMetricsTest, JobsThatAreGoneLeaveNoSeries) {
  EXPECT_THAT(Text(), HasSubstr("espalier_job_flows{job=\"job\"} 4"));
  for (int host = 0; host < 4; ++host) cluster_.End(host, 1);
  cluster_.Settle();
  cluster_.Advance(std::chrono::minutes(11));
  EXPECT_THAT(Text(), Not(HasSubstr("espalier_job_flows{")));
}

// A host that names thousands of jobs makes no more series than that.
TEST_F(FabricMetricsTest, ManyJobsMakeABoundedNumberOfSeries) {
  for (std::uint64_t i = 0; i < FabricMetrics::kMostJobs + 40; ++i) {
    cluster_.Open(5, {{.id = 100 + i, .to = 9, .job = "made-up-" + std::to_string(i)}});
  }
  cluster_.Settle();
  const std::string text = Text();
  std::size_t series = 0;
  for (std::size_t at = 0; (at = text.find("espalier_job_flows{", at)) != std::string::npos; ++at) {
    ++series;
  }
  EXPECT_EQ(series, FabricMetrics::kMostJobs);
  EXPECT_THAT(text, HasSubstr("espalier_job_flows{job=\"job\"} 4"));  // the largest job stays
  EXPECT_THAT(text, HasSubstr("espalier_controller_series_omitted 41"));
}

}  // namespace
}  // namespace espalier::controller
