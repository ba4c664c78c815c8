#include "deploy/cli/planning/cluster_commands.h"

#include <gtest/gtest.h>

#include <string>

#include "common/files/file.h"
#include "common/files/json.h"
#include "deploy/cli/planning/simulate_commands.h"
#include "tests/deploy/cli/run_command.h"
#include "tests/temporary_folder.h"

namespace espalier::cli {
namespace {

class SimulateCluster : public testing::Test {
 protected:
  // A scenario of a job of two hosts, with these members.
  Outcome Run(const std::string& members, const std::string& options = "") const {
    const std::string path = temporary_.path() + "/scenario.json";
    const std::string text =
        R"({"name": "N", "leaf_spine": {"spines": 2, "leaves": 2, "hosts_per_leaf": 2},)"
        R"("jobs": [{"id": "A", "start_seconds": 1, "compute_seconds": "0.01",)"
        R"("rings": [{"hosts": ["h0", "h2"], "bytes": 125000000}]}],)" +
        members + "}";
    EXPECT_TRUE(io::WriteFileDurably(path, text));
    return RunCommand(AddSimulateCommands, "simulate cluster --scenario " + path + " " + options);
  }

  TemporaryFolder temporary_;
};

TEST_F(SimulateCluster, PrintsEveryFieldAndTheSameForTheSameSeed) {
  const std::string members =
      R"("duration_seconds": 4,
         "actions": [{"at_seconds": 2, "do": "fail", "link": "leaf0--spine0"}])";
  const Outcome outcome = Run(members, "--seed 5 --json");
  ASSERT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_EQ(outcome.output, Run(members, "--seed 5 --json").output);
  EXPECT_NE(outcome.output, Run(members, "--seed 6 --json").output);
  EXPECT_EQ(Run(members, "--json").output, Run(members, "--seed 1 --json").output);
  const auto json = io::ParseJson(outcome.output, "output");
  ASSERT_TRUE(json) << json.error().message;
  for (const char* key :
       {"scenario", "mode", "seed", "simulated_seconds", "simulated_events", "trace", "jobs",
        "most_loaded_link", "path_changes", "pushes", "full_pushes", "probes", "mismatches",
        "local_reroutes", "messages", "faults", "events", "violations"}) {
    EXPECT_NE(json->Find(key), nullptr) << key;
  }
  const io::JsonValue& job = json->Find("jobs")->items.at(0);
  EXPECT_EQ(std::stod(job.Find("ideal_seconds")->text), 0.01);
  EXPECT_NEAR(std::stod(job.Find("all")->Find("median_seconds")->text), 0.01, 1e-4);
  for (const char* key : {"second_half", "communication_seconds", "ports_changed"}) {
    EXPECT_NE(job.Find(key), nullptr) << key;
  }
  bool is_done = false;
  for (const io::JsonValue& event : json->Find("events")->items) {
    is_done |= event.Find("event")->text == "action_done";
  }
  EXPECT_TRUE(is_done);
}

TEST_F(SimulateCluster, PrintsATable) {
  const Outcome outcome = Run(R"("duration_seconds": 3, "messages": {"loss_percent": 10})");
  ASSERT_EQ(outcome.code, 0) << outcome.errors;
  for (const char* text : {"JOB", "IDEAL_MS", "MEDIAN_MS", "most loaded link", "path changes",
                           "pushes", "probes", "flows on other paths", "AT_S", "agent_up"}) {
    EXPECT_NE(outcome.output.find(text), std::string::npos) << text;
  }
}

TEST_F(SimulateCluster, PrintsATableWhenNothingHappens) {
  const Outcome outcome = Run(R"("duration_seconds": "0.5", "mode": "ecmp")");
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_NE(outcome.output.find("mode ecmp"), std::string::npos);
}

TEST_F(SimulateCluster, FailsIfTheRunViolatesAnInvariant) {
  // Without a controller and agents, nothing leads the flows off a dead link further away.
  const std::string down = R"({"at_seconds": 2, "do": "link-down", "link": "leaf0--spine0"})";
  int failed = 0;
  for (int seed = 1; seed <= 4; ++seed) {
    const Outcome outcome =
        Run(R"("duration_seconds": 4, "mode": "ecmp", "actions": [)" + down + "]",
            "--json --seed " + std::to_string(seed));
    const bool has_violation = outcome.output.find("\"violations\":[]") == std::string::npos;
    EXPECT_EQ(outcome.code, has_violation ? 1 : 0);
    EXPECT_EQ(outcome.errors.find("stands still") != std::string::npos, has_violation);
    failed += has_violation ? 1 : 0;
    const Outcome steered = Run(R"("duration_seconds": 4, "actions": [)" + down + "]",
                                "--seed " + std::to_string(seed));
    EXPECT_EQ(steered.code, 0) << steered.errors;
  }
  EXPECT_GE(failed, 1);
}

TEST_F(SimulateCluster, TellsBadUsageAndBadInput) {
  for (const char* arguments :
       {"simulate cluster", "simulate cluster --scenario /nowhere/s.json",
        "simulate cluster --scenario x --seed -1", "simulate cluster --scenario x --wrong"}) {
    const Outcome outcome = RunCommand(AddSimulateCommands, arguments);
    EXPECT_EQ(outcome.code, 2) << arguments;
    EXPECT_EQ(outcome.output, "") << arguments;
    EXPECT_NE(outcome.errors, "") << arguments;
  }
  const Outcome bad = Run("\n\"duration_seconds\": -1");
  EXPECT_EQ(bad.code, 2);
  EXPECT_TRUE(bad.errors.starts_with("espalier: " + temporary_.path() + "/scenario.json:2:21: "))
      << bad.errors;
  const Outcome help = RunCommand(AddSimulateCommands, "simulate cluster --help");
  EXPECT_EQ(help.code, 0);
  EXPECT_NE(help.output.find("Examples:"), std::string::npos);
}

}  // namespace
}  // namespace espalier::cli
