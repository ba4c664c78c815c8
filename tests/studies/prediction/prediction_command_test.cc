#include "tests/studies/prediction/prediction_command.h"

#include <gtest/gtest.h>

#include <string>

#include "common/files/json.h"
#include "tests/deploy/cli/run_command.h"

namespace espalier::offline {
namespace {

using cli::Outcome;
using cli::RunCommand;

TEST(PredictionCommand, PrintsEveryFieldOfEveryScenario) {
  const std::string command = "--iterations 5 --seeds 1 --only ";
  const Outcome outcome = RunCommand(AddPredictionOptions, command + "'jobs 1,' --json");
  ASSERT_EQ(outcome.code, 0) << outcome.errors;
  const auto json = io::ParseJson(outcome.output, "output");
  ASSERT_TRUE(json.has_value()) << json.error().message;
  const auto& scenarios = json->Find("scenarios")->items;
  ASSERT_EQ(scenarios.size(), 3U);
  for (const io::JsonValue& scenario : scenarios) {
    for (const char* key :
         {"scenario", "seeds", "starts", "planned", "checks", "checked_planned",
          "planned_least_load", "planned_as_good", "checks_without", "least_load_without",
          "as_good_without", "allreduce_seconds", "allreduce_seconds_without", "allreduce_ratio"}) {
      EXPECT_NE(scenario.Find(key), nullptr) << key;
    }
    for (const char* key : {"start_error_seconds", "end_error_seconds"}) {
      for (const char* part : {"count", "median", "p99"}) {
        EXPECT_NE(scenario.Find(key)->Find(part), nullptr) << key << part;
      }
    }
    EXPECT_EQ(scenario.Find("seeds")->text, "1");
    EXPECT_EQ(scenario.Find("planned")->text, scenario.Find("starts")->text);
    EXPECT_NEAR(std::stod(scenario.Find("allreduce_ratio")->text), 1, 0.01);
  }
  const Outcome chance =
      RunCommand(AddPredictionOptions, command + "'jitter 5 %, half the spines' --json");
  const auto row = io::ParseJson(chance.output, "output");
  ASSERT_TRUE(row.has_value()) << row.error().message;
  EXPECT_EQ(row->Find("scenarios")->items[0].Find("seeds")->text, "10");
  const Outcome table = RunCommand(AddPredictionOptions, command + "'phase'");
  EXPECT_NE(table.output.find("ALLREDUCE_RATIO"), std::string::npos);
  EXPECT_NE(table.output.find("jobs 4, phase change"), std::string::npos);
}

TEST(PredictionCommand, RefusesWhatIsNotThere) {
  EXPECT_NE(RunCommand(AddPredictionOptions, "--only nothing").code, 0);
  EXPECT_NE(RunCommand(AddPredictionOptions, "--jobs /nowhere").code, 0);
  EXPECT_EQ(RunCommand(AddPredictionOptions, "--iterations 3").code, 2);
}

}  // namespace
}  // namespace espalier::offline
