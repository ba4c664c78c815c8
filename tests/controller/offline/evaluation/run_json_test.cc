#include "controller/offline/evaluation/run_json.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace espalier::offline {
namespace {

SchemeRun MakeRun() {
  SchemeRun run{.scheme = {Algorithm::kEcmp, 4, 7}, .wall_seconds = 0.5};
  run.outcome.max_link_load = 1.5;
  run.outcome.assignments = 3;
  run.outcome.assigned_flows = 12;
  run.outcome.events = 99;
  run.outcome.end_seconds = 2.25;
  run.assignment_seconds = {0.000003, 0.000001, 0.000002};
  run.outcome.jobs = {{.epoch_seconds = {1, 3},
                       .allreduce_seconds = 2,
                       .mean_completion_seconds = 0.25,
                       .mean_throughput_gbps = 40,
                       .slowest_flow_seconds = 0.5,
                       .slowest_flow_gbps = 20,
                       .flows = 8,
                       .ports_changed = 3}};
  run.outcome.jobs[0].phase_seconds = {2};
  run.overlap = {.load = {3, 1}, .lower_bound = {5, 2}};
  return run;
}

std::string Write(const SchemeRun& run, RunDetail detail) {
  const std::vector<Job> jobs = {{.id = "J", .model = "BLOOM", .phases = {{.name = "p"}}}};
  io::JsonWriter json;
  WriteRun(json, run, jobs, detail);
  return json.Text();
}

// Without blanks and line breaks, which have no meaning.
std::string Compact(std::string text) {
  std::erase_if(text, [](char c) { return c == ' ' || c == '\n'; });
  return text;
}

TEST(WriteRun, TellsEverythingOrASummary) {
  EXPECT_EQ(
      Compact(Write(MakeRun(), RunDetail::kAll)),
      R"({"algorithm":"ecmp","split":4,"seed":7,"max_link_load":1.5,)"
      R"("worst_overlap_load":3.0,"worst_overlap_lower_bound":2.5,"assignments":3,)"
      R"("assigned_flows":12,"microseconds_per_assignment":2.0,"simulated_seconds":2.25,)"
      R"("events":99,"wall_seconds":0.5,"jobs":[{"job":"J","model":"BLOOM",)"
      R"("allreduce_seconds":2.0,"mean_flow_completion_seconds":0.25,)"
      R"("mean_throughput_gbps":40.0,"slowest_flow_seconds":0.5,"slowest_flow_gbps":20.0,)"
      R"("ports_changed_per_epoch":1.5,)"
      R"("phases":[{"phase":"p","communication_seconds":2.0}],"flows":8,"epoch_seconds":[1.0,3.0]}]})");
  EXPECT_EQ(Compact(Write(MakeRun(), RunDetail::kSummary)),
            R"({"algorithm":"ecmp","split":4,"seed":7,"max_link_load":1.5,)"
            R"("worst_overlap_load":3.0,"worst_overlap_lower_bound":2.5,"assignments":3,)"
            R"("assigned_flows":12,"microseconds_per_assignment":2.0,"wall_seconds":0.5,)"
            R"("jobs":[{"job":"J","model":"BLOOM","allreduce_seconds":2.0,)"
            R"("mean_flow_completion_seconds":0.25,"mean_throughput_gbps":40.0,)"
            R"("slowest_flow_seconds":0.5,"slowest_flow_gbps":20.0,)"
            R"("ports_changed_per_epoch":1.5}]})");
}

}  // namespace
}  // namespace espalier::offline
