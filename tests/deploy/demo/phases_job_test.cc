#include "deploy/demo/phases_job.h"

#include <gtest/gtest.h>

#include "tests/studies/lab/phases_report.h"

namespace espalier::demo {
namespace {

lab::LabLayout Layout(lab::LabOptions options) {
  auto layout = lab::LabLayout::Make(std::move(options));
  EXPECT_TRUE(layout.has_value());
  return *layout;
}

TEST(MakePhases, MakesJobsWhosePhasesFitTheFabricAndWhoseConnectionsDoNot) {
  const lab::LabLayout layout = Layout({.link_rate = BitsPerSecond{50'000'000}});
  for (const int jobs : {2, 4}) {
    const auto phases = MakePhases(layout, {.jobs = jobs, .queue_pairs = 2, .iterations = 3});
    ASSERT_TRUE(phases.has_value()) << phases.error().message;
    EXPECT_EQ(phases->name, "phases");
    const auto& placed = phases->workload.phased_jobs;
    ASSERT_EQ(placed.size(), static_cast<std::size_t>(jobs));
    EXPECT_EQ(placed[0].iterations, 3);
    EXPECT_EQ(placed[0].queue_pairs, 2);
    EXPECT_FALSE(placed[0].announces_remaining);
    EXPECT_DOUBLE_EQ(
        phases->ideal.allreduce_seconds.at("A"),
        phases->ideal.slowest_flow_seconds * static_cast<double>(placed[0].phases.size()));
    // Below the time of the bytes alone, as the links' queues let the first ones pass at once.
    EXPECT_LT(phases->ideal.slowest_flow_seconds, 0.176);
    EXPECT_GT(phases->ideal.slowest_flow_seconds, 0.15);
  }
}

TEST(MakePhases, RefusesFabricsInWhichPhasesMakeNoDifference) {
  EXPECT_FALSE(MakePhases(Layout({}), {}).has_value());  // no link rate
  const BitsPerSecond rate{50'000'000};
  EXPECT_FALSE(MakePhases(Layout({.spines = 2, .link_rate = rate}), {}).has_value());
  EXPECT_FALSE(MakePhases(Layout({.spines = 16, .link_rate = rate}), {}).has_value());
  EXPECT_FALSE(MakePhases(Layout({.leaves = 2, .link_rate = rate}), {}).has_value());
}

TEST(ControllerFields, CountConnectionsInOneScheme) {
  EXPECT_EQ(ControllerFields(Scheme::kEcmp), "");
  EXPECT_EQ(ControllerFields(Scheme::kConnections), "activity: \"connections\"\n");
  EXPECT_EQ(ControllerFields(Scheme::kEspalier), "");  // the default
}

TEST(PhasesReport, ShowsEverySchemeBesideTheIdeal) {
  PhasesComparison comparison{.link_mbps = 50, .seeds = 2, .shape = {.jobs = 4}};
  comparison.ideal = {"phases", 0.1, {{"A", 0.4}}};
  for (const Scheme scheme : kSchemes) {
    const RunFigures run{.name = "phases",
                         .scheme = NameOf(scheme),
                         .slowest_flow_seconds = 0.25,
                         .allreduce_seconds = {{"A", 0.9}},
                         .ports_changed_per_iteration = 1.5};
    comparison.schemes[run.scheme] = {.runs = {run, run}, .steered_ports = 7, .mismatches = 3};
  }
  const auto json = io::ParseJson(PhasesJson(comparison), "comparison");
  ASSERT_TRUE(json.has_value());
  EXPECT_EQ(json->Find("concurrent_jobs")->text, "4");
  ASSERT_EQ(json->Find("runs")->items.size(), 3U);
  const io::JsonValue& run = json->Find("runs")->items[0];
  for (const char* field :
       {"scheme", "slowest_burst_seconds", "max_link_flows", "ports_changed_per_iteration",
        "steered_ports", "spine_counter_mismatches", "jobs"}) {
    EXPECT_NE(run.Find(field), nullptr) << field;
  }
  EXPECT_EQ(run.Find("spine_counter_mismatches")->text, "3");
  const std::string table = PhasesTable(comparison);
  for (const char* scheme : {"ecmp", "connections", "espalier", "ideal"}) {
    EXPECT_NE(table.find(scheme), std::string::npos) << scheme;
  }
}

}  // namespace
}  // namespace espalier::demo
