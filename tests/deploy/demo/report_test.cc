#include "deploy/demo/report.h"

#include <gtest/gtest.h>

#include "common/files/json.h"

namespace espalier::demo {
namespace {

RunFigures Figures(double slowest, double worst_link, double allreduce) {
  return {.name = "two-rings",
          .scheme = "espalier",
          .slowest_flow_seconds = slowest,
          .median_flow_seconds = slowest / 2,
          .max_link_flows = worst_link,
          .throughput_mbps = 100 / slowest,
          .allreduce_seconds = {{"A", allreduce}}};
}

TEST(MedianOf, TakesEachFiguresOwnMedian) {
  const RunFigures median =
      MedianOf(std::vector{Figures(1, 3, 9), Figures(4, 1, 7), Figures(2, 2, 8)});
  EXPECT_EQ(median.name, "two-rings");
  EXPECT_DOUBLE_EQ(median.slowest_flow_seconds, 2);
  EXPECT_DOUBLE_EQ(median.max_link_flows, 2);
  EXPECT_DOUBLE_EQ(median.throughput_mbps, 50);
  EXPECT_DOUBLE_EQ(median.allreduce_seconds.at("A"), 8);
  EXPECT_DOUBLE_EQ(MedianOf(std::vector{Figures(1, 1, 1), Figures(2, 1, 1)}).slowest_flow_seconds,
                   1.5);
}

TEST(ReportJson, HasEveryFieldOfTheFormat) {
  Report report{.fabric = "4x4x4", .link_mbps = 50, .seeds = 3};
  report.runs = {Figures(1, 1, 2)};
  report.ideal = {{"two-rings", 0.8, {{"A", 1.5}}}};
  report.steered_flows = 48;
  report.failure = {.link = "leaf2--spine1",
                    .flows_on_link = 3,
                    .flows_moved = 3,
                    .seconds_to_move = 0.02,
                    .job_completed = true};
  const auto json = io::ParseJson(ReportJson(report), "report");
  ASSERT_TRUE(json.has_value());
  for (const char* field : {"fabric", "link_mbps", "seeds", "runs", "ideal", "steered_flows",
                            "spine_counter_mismatches", "failure"}) {
    EXPECT_NE(json->Find(field), nullptr) << field;
  }
  const io::JsonValue& run = json->Find("runs")->items[0];
  for (const char* field :
       {"name", "scheme", "slowest_flow_seconds", "median_flow_seconds", "max_link_flows",
        "throughput_mbps", "ports_changed_per_iteration", "jobs"}) {
    EXPECT_NE(run.Find(field), nullptr) << field;
  }
  EXPECT_EQ(run.Find("max_link_flows")->text, "1.0");
  const io::JsonValue& failure = *json->Find("failure");
  for (const char* field : {"link", "flows_on_link", "flows_moved", "dead_flows", "seconds_to_move",
                            "flows_recovered", "slowest_recovery_seconds", "job_completed"}) {
    EXPECT_NE(failure.Find(field), nullptr) << field;
  }
  EXPECT_TRUE(failure.Find("job_completed")->boolean);
}

TEST(ReportTable, SaysWhenAJobDidNotComplete) {
  Report report{.fabric = "4x4x4", .link_mbps = 50, .seeds = 3};
  report.failure.job_completed = false;
  EXPECT_NE(ReportTable(report).find("DID NOT COMPLETE"), std::string::npos);
}

}  // namespace
}  // namespace espalier::demo
