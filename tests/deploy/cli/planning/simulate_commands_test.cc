#include "deploy/cli/planning/simulate_commands.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "common/fabric/builders.h"
#include "common/files/file.h"
#include "common/files/json.h"
#include "common/files/topology_file.h"
#include "tests/deploy/cli/run_command.h"
#include "tests/temporary_folder.h"

namespace espalier::cli {
namespace {

class Simulate : public testing::Test {
 protected:
  Simulate() {
    const auto spec = *fabric::BuildLeafSpine({.spines = 2, .leaves = 3, .hosts_per_leaf = 2});
    Write("fabric.json", io::FormatTopology(spec));
    // Two rings whose flows share leaves: 1 Gbit at 100 Gbit/s in two rounds each.
    Write("jobs.json",
          R"({"jobs": [{"id": "A", "model": "M", "epochs": 2,
                        "rings": [{"hosts": ["h0", "h2"], "bytes": 125000000},
                                  {"hosts": ["h1", "h3"], "bytes": 125000000}]}]})");
  }

  std::string Path(const std::string& name) const { return temporary_.path() + "/" + name; }
  std::string Write(const std::string& name, const std::string& text) const {
    EXPECT_TRUE(io::WriteFileDurably(Path(name), text).has_value());
    return Path(name);
  }
  Outcome Run(const std::string& options) const {
    return RunCommand(AddSimulateCommands, "simulate --topology " + Path("fabric.json") +
                                               " --jobs " + Path("jobs.json") + " " + options);
  }

  TemporaryFolder temporary_;
};

TEST_F(Simulate, PrintsEveryFieldOfEveryRun) {
  const Outcome outcome = Run("--algorithm optimal,ecmp,ilp,ideal --seeds 3 --json");
  ASSERT_EQ(outcome.code, 0) << outcome.errors;
  const auto json = io::ParseJson(outcome.output, "output");
  ASSERT_TRUE(json.has_value()) << json.error().message;
  const auto& runs = json->Find("runs")->items;
  ASSERT_EQ(runs.size(), 6U);  // ecmp thrice
  for (const io::JsonValue& run : runs) {
    for (const char* key :
         {"algorithm", "split", "seed", "max_link_load", "assignments", "assigned_flows",
          "microseconds_per_assignment", "simulated_seconds", "events", "wall_seconds", "jobs"}) {
      EXPECT_NE(run.Find(key), nullptr) << key;
    }
    const io::JsonValue& job = run.Find("jobs")->items.at(0);
    EXPECT_EQ(job.Find("job")->text, "A");
    EXPECT_EQ(job.Find("epoch_seconds")->items.size(), 2U);
    const std::string algorithm = run.Find("algorithm")->text;
    if (algorithm == "ecmp") continue;
    EXPECT_NEAR(std::stod(job.Find("allreduce_seconds")->text), 0.01, 1e-6) << algorithm;
    if (algorithm == "ideal") continue;  // any path will do there
    EXPECT_EQ(std::stod(run.Find("max_link_load")->text), 1) << algorithm;
  }
}

TEST_F(Simulate, PrintsATableWithTheSpreadOfSeeds) {
  const Outcome outcome = Run("--algorithm greedy,ecmp --seeds 5");
  ASSERT_EQ(outcome.code, 0) << outcome.errors;
  for (const char* text : {"ALGORITHM", "greedy", "ecmp least", "ecmp median", "ecmp greatest"}) {
    EXPECT_NE(outcome.output.find(text), std::string::npos) << text;
  }
}

TEST_F(Simulate, WritesMessagesForPacketSimulators) {
  const Outcome outcome = Run("--algorithm optimal --export htsim -o " + Path("flows.cm"));
  ASSERT_EQ(outcome.code, 0) << outcome.errors;
  const auto matrix = io::ReadFile(Path("flows.cm"));
  ASSERT_TRUE(matrix.has_value());
  // Two rings of two hosts, two epochs of two rounds.
  EXPECT_NE(matrix->find("\nConnections 16\n"), std::string::npos) << *matrix;
  EXPECT_EQ(std::ranges::count(*matrix, '\n'), 2 + 16);
  const auto paths = io::ReadFile(Path("flows.cm.paths.csv"));
  ASSERT_TRUE(paths.has_value());
  EXPECT_EQ(std::ranges::count(*paths, '\n'), 1 + 16) << *paths;
  EXPECT_NE(paths->find(",A:h0>h2:4,"), std::string::npos);
  const Outcome several = Run("--algorithm optimal,greedy --export ns3 -o " + Path("flows.csv"));
  EXPECT_EQ(several.code, 2);
  EXPECT_NE(several.errors.find("--export writes the paths of one algorithm"), std::string::npos)
      << several.errors;
}

TEST_F(Simulate, ComparesPhasesWithConnections) {
  const std::string command = "simulate --topology " + Path("fabric.json") +
                              " --workload pipeline,all-to-all --ranks 3 --nics-per-host 1 "
                              "--epochs 3 --algorithm ecmp,connections,phases,optimal ";
  const Outcome table = RunCommand(AddSimulateCommands, command);
  ASSERT_EQ(table.code, 0) << table.errors;
  for (const char* text : {"WORST_OVERLAP", "PORTS_CHANGED", "(bound ", "\nPhases "}) {
    EXPECT_NE(table.output.find(text), std::string::npos) << text;
  }
  const Outcome outcome = RunCommand(AddSimulateCommands, command + "--json");
  const auto json = io::ParseJson(outcome.output, "output");
  ASSERT_TRUE(json.has_value()) << json.error().message;
  for (const io::JsonValue& run : json->Find("runs")->items) {
    for (const char* key : {"worst_overlap_load", "worst_overlap_lower_bound"}) {
      EXPECT_NE(run.Find(key), nullptr) << key;
    }
    const io::JsonValue& job = run.Find("jobs")->items.at(0);
    EXPECT_EQ(job.Find("phases")->items.size(), 2U);
    for (const char* key :
         {"slowest_flow_seconds", "slowest_flow_gbps", "ports_changed_per_epoch"}) {
      EXPECT_NE(job.Find(key), nullptr) << key;
    }
  }
  const io::JsonValue* gain = json->Find("phases_against_connections");
  ASSERT_NE(gain, nullptr);
  EXPECT_EQ(gain->Find("jobs")->items.size(), 2U);
  EXPECT_NE(gain->Find("text"), nullptr);
}

TEST_F(Simulate, FailsSpines) {
  const auto seconds = [this](const std::string& options) {
    const Outcome outcome = Run(options + " --json");
    EXPECT_EQ(outcome.code, 0) << outcome.errors;
    const auto json = *io::ParseJson(outcome.output, "output");
    return std::stod(
        json.Find("runs")->items[0].Find("jobs")->items[0].Find("allreduce_seconds")->text);
  };
  EXPECT_NEAR(seconds("--failed-spines 1"), 0.02, 1e-6);
  EXPECT_NEAR(seconds("--split 2"), 0.01, 1e-6);
  const Outcome all = Run("--failed-spines 3");
  EXPECT_EQ(all.code, 2);
  EXPECT_NE(all.errors.find("--failed-spines"), std::string::npos);
  const Outcome none_left = Run("--failed-spines 2");
  EXPECT_EQ(none_left.code, 1);
  EXPECT_EQ(none_left.output, "");
  EXPECT_NE(none_left.errors, "");
}

TEST_F(Simulate, TellsBadUsageAndBadInput) {
  const std::string topology = "--topology " + Path("fabric.json");
  for (const std::string& arguments :
       {std::string("simulate"), "simulate " + topology, "simulate --jobs " + Path("jobs.json"),
        "simulate " + topology + " --jobs " + Path("none.json"),
        "simulate " + topology + " --jobs " + temporary_.path() + "/none",
        "simulate --topology " + Path("jobs.json") + " --jobs " + Path("jobs.json"),
        std::string("simulate paper"), "simulate paper --jobs " + temporary_.path(),
        "simulate paper --jobs " + temporary_.path() + " -o " + Path("out")}) {
    const Outcome outcome = RunCommand(AddSimulateCommands, arguments);
    EXPECT_EQ(outcome.code, 2) << arguments;
    EXPECT_EQ(outcome.output, "") << arguments;
    EXPECT_NE(outcome.errors, "") << arguments;
  }
  for (const char* options :
       {"--algorithm best", "--algorithm ''", "--algorithm greedy,", "--split 0", "--split 17",
        "--seeds 0", "--workload tree", "--failed-spines -1", "--live-flows some"}) {
    EXPECT_EQ(Run(options).code, 2) << options;
  }
  for (const char* options : {"--workload forest", "--workload tree --ranks 3", "--workload bloom",
                              "--workload tree --epochs 0"}) {
    const Outcome outcome = RunCommand(AddSimulateCommands, "simulate " + topology + " " + options);
    EXPECT_NE(outcome.code, 0) << options;
    EXPECT_NE(outcome.errors, "") << options;
  }
  Write("jobs.json", "{\"jobs\": [\n{\"id\": 1}]}");
  const Outcome bad = Run("");
  EXPECT_EQ(bad.code, 2);
  EXPECT_TRUE(bad.errors.starts_with("espalier: " + Path("jobs.json") + ":2:8: ")) << bad.errors;
}

TEST_F(Simulate, WritesTheEvaluationOfAFolder) {
  const std::string folder = Path("data") + "/concurrent_jobs_1/ring_size_2";
  std::filesystem::create_directories(folder);
  // Two rings of two hosts, of one ToR each: the paper's fabric has h0 ... h31 on ToR 0.
  std::ofstream(folder + "/job_0-BLOOM.txt")
      << "96 128 0 1 0 1000000 1000 0\n128 96 1 0 0 1000000 1000 0\n";
  const Outcome outcome =
      RunCommand(AddSimulateCommands, "simulate paper --jobs " + Path("data") + " -o " +
                                          Path("out") + " --seeds 2 --concurrent-jobs 1 --json");
  ASSERT_EQ(outcome.code, 0) << outcome.errors;
  const auto json = io::ParseJson(outcome.output, "output");
  ASSERT_TRUE(json.has_value());
  EXPECT_EQ(json->Find("scenarios")->items.size(), 4U);
  for (const char* name : {"evaluation.md", "evaluation.json"}) {
    EXPECT_TRUE(std::filesystem::exists(Path("out/") + name)) << name;
  }
  // The figures, or what is missing to draw them.
  const bool are_drawn = outcome.errors.find("the figures were not drawn: ") == std::string::npos;
  for (const char* name :
       {"figure4.svg", "figure5.svg", "figure6.svg", "figure7.svg", "figure8.svg"}) {
    EXPECT_EQ(std::filesystem::exists(Path("out/") + name), are_drawn) << name;
  }
  if (!are_drawn) {
    EXPECT_NE(outcome.errors.find("to draw them later: espalier-figures " +
                                  Path("out/evaluation.json") + "\n"),
              std::string::npos)
        << outcome.errors;
  }
  std::ostringstream table;
  table << std::ifstream(Path("out/evaluation.md")).rdbuf();
  EXPECT_NE(table.str().find("| 1 job, ring 2, 8 failed: BLOOM |"), std::string::npos);
}

}  // namespace
}  // namespace espalier::cli
