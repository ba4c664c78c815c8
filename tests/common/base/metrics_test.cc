#include "common/base/metrics.h"

#include <gtest/gtest.h>

#include <string>

namespace espalier {
namespace {

TEST(Metrics, TextShowsWhatWasCreated) {
  Metrics metrics;
  metrics.MakeCounter("espalier_agent_local_reroutes_total", "Local reroutes.").Add(3);
  metrics.MakeGauge("espalier_agent_other", "Something else.").Set(1);
  const std::string text = metrics.Text();
  EXPECT_NE(text.find("# HELP espalier_agent_local_reroutes_total Local reroutes.\n"),
            std::string::npos);
  EXPECT_NE(text.find("espalier_agent_local_reroutes_total 3\n"), std::string::npos);
  EXPECT_EQ(text.find("espalier_prediction_jobs"), std::string::npos);  // it was not created
}

TEST(Metrics, AFamilyHasTheGaugesOfTheLastRoundUpToItsLimit) {
  Metrics metrics;
  GaugeFamily& links = metrics.MakeGauges("espalier_link_load", "Load of a link", 2);
  EXPECT_TRUE(links.Set({{"link", "a"}}, 1));
  EXPECT_TRUE(links.Set({{"link", "say \"b\""}}, 2));
  EXPECT_FALSE(links.Set({{"link", "c"}}, 3));
  EXPECT_NE(metrics.Text().find("espalier_link_load{link=\"a\"} 1"), std::string::npos);
  EXPECT_NE(metrics.Text().find("espalier_link_load{link=\"say \\\"b\\\"\"} 2"), std::string::npos)
      << metrics.Text();
  EXPECT_EQ(metrics.Text().find("\"c\""), std::string::npos);
  links.EndRound();
  EXPECT_TRUE(links.Set({{"link", "a"}}, 4));
  links.EndRound();
  EXPECT_NE(metrics.Text().find("espalier_link_load{link=\"a\"} 4"), std::string::npos);
  EXPECT_EQ(metrics.Text().find("say"), std::string::npos);
  EXPECT_TRUE(links.Set({{"link", "c"}}, 3));
  EXPECT_EQ(&links, &metrics.MakeGauges("espalier_link_load", "Load of a link", 2));
}

TEST(Metrics, AHistogramCountsForItsLabelsOnly) {
  Metrics metrics;
  const auto of = [&](const char* task) -> LatencyHistogram& {
    return metrics.MakeLatency("espalier_work_seconds", "Duration of a task", {{"task", task}});
  };
  of("a").ObserveSeconds(0.5);
  of("a").ObserveSeconds(0.5);
  EXPECT_NE(&of("a"), &of("b"));
  const std::string text = metrics.Text();
  EXPECT_NE(text.find("espalier_work_seconds_count{task=\"a\"} 2\n"), std::string::npos) << text;
  EXPECT_NE(text.find("espalier_work_seconds_count{task=\"b\"} 0\n"), std::string::npos) << text;
}

}  // namespace
}  // namespace espalier
