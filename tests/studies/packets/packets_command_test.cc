// An assignment, from `espalier assign --export ns3` to the packets.
#include "tests/studies/packets/packets_command.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "common/fabric/builders.h"
#include "common/files/file.h"
#include "common/files/json.h"
#include "common/files/topology_file.h"
#include "deploy/cli/planning/assign_commands.h"
#include "tests/deploy/cli/run_command.h"
#include "tests/temporary_folder.h"

namespace espalier::offline {
namespace {

using cli::Outcome;
using cli::RunCommand;

// Four hosts on each of two leaves under four spines, each of which sends to the other leaf.
class PacketsOfAnAssignment : public testing::Test {
 protected:
  PacketsOfAnAssignment() {
    const auto topology = fabric::Topology::Build(
        *fabric::BuildLeafSpine({.spines = 4, .leaves = 2, .hosts_per_leaf = 4}));
    EXPECT_TRUE(io::WriteFileDurably(fabric_, io::FormatTopology(topology->Spec())));
    std::string flows = "flow,job,src,dst,bytes\n";
    for (int host = 0; host < 8; ++host) {
      flows += fmt::format("f{0},J,h{0},h{1},1000000\n", host, (host + 4) % 8);
    }
    EXPECT_TRUE(io::WriteFileDurably(flows_, flows));
  }

  struct Judged {
    double load = 0;     // of the most loaded link, as `espalier assign` says
    double slowest = 0;  // flow, as the packets say
  };
  Judged Judge(const std::string& algorithm) {
    Judged judged;
    const Outcome assigned = RunCommand(cli::AddAssignCommand,
                                        "assign --topology " + fabric_ + " --flows " + flows_ +
                                            " --json --export ns3 -o " + table_ + " " + algorithm);
    EXPECT_EQ(assigned.code, 0) << assigned.errors;
    const Outcome packets =
        RunCommand(AddPacketsOptions, "--topology " + fabric_ + " --json --table " + table_);
    EXPECT_EQ(packets.code, 0) << packets.errors;
    const auto plan = io::ParseJson(assigned.output, "plan");
    const auto report = io::ParseJson(packets.output, "report");
    if (!plan || !report) return judged;
    judged.load = std::stod(plan->Find("max_link_load")->text);
    judged.slowest = std::stod(report->Find("slowest")->text);
    return judged;
  }

  TemporaryFolder temporary_;
  const std::string fabric_ = temporary_.path() + "/fabric.json";
  const std::string flows_ = temporary_.path() + "/flows.csv";
  const std::string table_ = temporary_.path() + "/paths.csv";
};

TEST_F(PacketsOfAnAssignment, TakeAsLongAsTheLoadOfTheMostLoadedLinkSays) {
  const Judged optimal = Judge("");
  EXPECT_EQ(optimal.load, 1);
  EXPECT_LT(optimal.slowest, 1.3);
  const Judged ecmp = Judge("--algorithm ecmp --seed 1");
  EXPECT_GE(ecmp.load, 2);
  EXPECT_GT(ecmp.slowest, 1.5 * optimal.slowest);
  EXPECT_NEAR(ecmp.slowest / ecmp.load, 1, 0.35);
}

TEST_F(PacketsOfAnAssignment, PrintsWordsWithoutJson) {
  Judge("--split 4");
  const Outcome outcome =
      RunCommand(AddPacketsOptions, "--topology " + fabric_ + " --table " + table_);
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_THAT(outcome.output, testing::HasSubstr("8 flows on 32 paths"));
  EXPECT_THAT(outcome.output, testing::HasSubstr("relative to the same flow alone: slowest "));
}

TEST_F(PacketsOfAnAssignment, RefusesBadInput) {
  for (const char* options : {"", "--topology /nowhere --table /nowhere", "--transport rocket",
                              "--link-delay-us 0", "--segment-bytes 1", "--queue-bytes 1"}) {
    EXPECT_NE(RunCommand(AddPacketsOptions, options).code, 0) << options;
  }
  EXPECT_TRUE(io::WriteFileDurably(table_, "flow\n"));
  const Outcome outcome =
      RunCommand(AddPacketsOptions, "--topology " + fabric_ + " --table " + table_);
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.errors,
              testing::HasSubstr("paths.csv:1:1: the first line is not the header"));
}

}  // namespace
}  // namespace espalier::offline
