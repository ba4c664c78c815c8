// The command line of the lab: exit codes, output, and errors that name the remedy.
#include "deploy/cli/lab/lab_commands.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>

#include "common/files/command_result.h"
#include "common/files/json.h"
#include "tests/deploy/lab/lab_fixture.h"

namespace espalier::lab {
namespace {

using testing::HasSubstr;

struct Outcome {
  int exit_code = 0;
  std::string out;
  std::string err;
};

// Runs the program with these arguments. The exit code is 2 if the option parser refuses them.
Outcome Espalier(std::vector<std::string> arguments) {
  CLI::App app("espalier");
  app.require_subcommand(1);
  int exit_code = 0;
  AddLabCommands(app, exit_code);
  std::reverse(arguments.begin(), arguments.end());  // CLI11 reads them from the back
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  try {
    app.parse(arguments);
  } catch (const CLI::ParseError& error) {
    exit_code = app.exit(error) == 0 ? 0 : 2;
  }
  std::fflush(nullptr);
  return {exit_code, testing::internal::GetCapturedStdout(),
          testing::internal::GetCapturedStderr()};
}

TEST(LabCommands, RefuseBadUsageWithTwo) {
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{"lab"},
                                             {"lab", "up", "--spines", "many"},
                                             {"lab", "up", "--spines", "0"},
                                             {"lab", "up", "--name", "../x"},
                                             {"lab", "up", "--icmp-limits", "maybe"},
                                             {"lab", "up", "--link-mbps", "-5"},
                                             {"lab", "exec", "h0"},
                                             {"lab", "fail"},
                                             {"lab", "fail", "leaf0--spine0", "--end", "c"},
                                             {"lab", "traffic"}}) {
    const Outcome outcome = Espalier(arguments);
    EXPECT_EQ(outcome.exit_code, 2) << testing::PrintToString(arguments);
    EXPECT_EQ(outcome.out, "");
    EXPECT_NE(outcome.err, "");
  }
}

TEST(LabCommands, RefuseAnUnknownLabWithOne) {
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{"down"},
                                             {"exec", "h0", "true"},
                                             {"fail", "leaf0--spine0"},
                                             {"restore", "leaf0--spine0"},
                                             {"counters", "--json"},
                                             {"traffic", "--workload", "/none"}}) {
    std::vector<std::string> all = {"lab"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    all.insert(all.begin() + 2, {"--name", "no-such-lab"});
    const Outcome outcome = Espalier(all);
    EXPECT_EQ(outcome.exit_code, 1) << testing::PrintToString(arguments);
    EXPECT_EQ(outcome.out, "");
    EXPECT_THAT(outcome.err, HasSubstr("espalier: no lab named 'no-such-lab'"));
  }
}

TEST(LabCommands, ErrorsAreJsonWhereTheResultIs) {
  const io::JsonErrors json_errors;  // as for every command line with --json
  const Outcome outcome = Espalier({"lab", "counters", "--name", "no-such-lab", "--json"});
  EXPECT_EQ(outcome.exit_code, 1);
  const Result<io::JsonValue> answer = io::ParseJson(outcome.out, "answer");
  ASSERT_TRUE(answer.has_value()) << outcome.out;
  const io::JsonValue* const error = answer->Find("error");
  ASSERT_NE(error, nullptr) << outcome.out;
  EXPECT_EQ(error->Find("code")->text, "not found");
  EXPECT_THAT(error->Find("message")->text, HasSubstr("no lab named 'no-such-lab'"));
  EXPECT_NE(error->Find("remedy")->text, "");
}

// The life of a lab, as its user sees it.
TEST(LabCommands, StartUseBreakAndStopALab) {
  const std::string name = fmt::format("test-commands-{}", ::getpid());
  const Outcome up = Espalier({"lab", "up", "--name", name, "--spines", "2", "--leaves", "2",
                               "--hosts-per-leaf", "1", "--link-mbps", "100", "--json"});
  if (up.exit_code != 0 && up.err.find("not allow namespaces") != std::string::npos) {
    GTEST_SKIP() << up.err;
  }
  ASSERT_EQ(up.exit_code, 0) << up.err;
  // Stops the lab whatever happens below.
  const std::unique_ptr<const std::string, void (*)(const std::string*)> down(
      &name, [](const std::string* lab) { static_cast<void>(Lab::Stop(*lab)); });
  const Result<io::JsonValue> shape = io::ParseJson(up.out, "up");
  ASSERT_TRUE(shape.has_value()) << shape.error().message;
  EXPECT_EQ(shape->Find("name")->text, name);
  EXPECT_EQ(shape->Find("link_mbps")->text, "100.0");
  EXPECT_TRUE(std::filesystem::exists(shape->Find("topology")->text));

  EXPECT_EQ(Espalier({"lab", "up", "--name", name}).exit_code, 1);
  EXPECT_THAT(Espalier({"lab", "list"}).out, HasSubstr(name));

  const std::string workload = shape->Find("topology")->text + ".workload";
  std::ofstream(workload) << R"({"flows": [{"id": "f", "source": "h0", "destination": "h1",
                                            "bytes": 20000, "port": 50000}]})";
  const Outcome traffic =
      Espalier({"lab", "traffic", "--name", name, "--workload", workload, "--json"});
  EXPECT_EQ(traffic.exit_code, 0) << traffic.err;
  EXPECT_TRUE(io::ParseJson(traffic.out, "traffic")->Find("completed")->boolean);

  // At 100 Mbit/s these bytes take minutes.
  std::ofstream(workload) << R"({"flows": [{"id": "f", "source": "h0", "destination": "h1",
                                            "bytes": 4000000000, "port": 50000}]})";
  Outcome cut;
  {
    const io::JsonErrors json_errors;
    cut = Espalier(
        {"lab", "traffic", "--name", name, "--workload", workload, "--time-limit", "1", "--json"});
  }
  EXPECT_EQ(cut.exit_code, 1);
  const Result<io::JsonValue> cut_result = io::ParseJson(cut.out, "traffic");
  ASSERT_TRUE(cut_result.has_value()) << cut.out;  // one object, not two
  EXPECT_FALSE(cut_result->Find("completed")->boolean);
  EXPECT_THAT(cut.err, HasSubstr("--time-limit"));

  const Outcome counters = Espalier({"lab", "counters", "--name", name, "--json"});
  const Result<io::JsonValue> counts = io::ParseJson(counters.out, "counters");
  ASSERT_TRUE(counts.has_value()) << counters.out << counters.err;
  ASSERT_EQ(counts->Find("flows")->items.size(), 1U);
  const io::JsonValue& flow = counts->Find("flows")->items[0];
  EXPECT_EQ(flow.Find("protocol")->text, "tcp");
  EXPECT_EQ(flow.Find("source")->text, "10.0.0.1");
  EXPECT_EQ(flow.Find("source_port")->text, "50000");

  EXPECT_EQ(Espalier({"lab", "fail", "--name", name, "leaf0--spine1"}).exit_code, 0);
  const Outcome again = Espalier({"lab", "fail", "--name", name, "leaf0--spine1"});
  EXPECT_EQ(again.exit_code, 0);
  EXPECT_THAT(again.err, HasSubstr("already"));
  EXPECT_EQ(Espalier({"lab", "fail", "--name", name, "leaf0--spine9"}).exit_code, 1);
  EXPECT_EQ(Espalier({"lab", "restore", "--name", name, "leaf0--spine1"}).exit_code, 0);
  EXPECT_EQ(Espalier({"lab", "exec", "--name", name, "h9", "true"}).exit_code, 1);
  const Outcome machine =
      Espalier({"lab", "rdma", "--name", name, "--host", "leaf0", "--", "true"});
  EXPECT_EQ(machine.exit_code, 1);
  EXPECT_THAT(machine.err, HasSubstr("has no host 'leaf0'"));

  EXPECT_EQ(Espalier({"lab", "down", "--name", name}).exit_code, 0);
  EXPECT_EQ(Espalier({"lab", "down", "--name", name}).exit_code, 1);
}

TEST(LabCommands, ExecHandsOnTheExitCodeAndTheArguments) {
  ESPALIER_LAB_OR_SKIP(lab, {.spines = 1, .leaves = 1, .hosts_per_leaf = 1});
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    Espalier({"lab", "exec", "--name", lab.record().options.name, "h0", "--", "sh", "-c",
              "test \"$1\" = --json && exit 41", "sh", "--json"});
    ::_exit(1);  // not reached: exec has replaced the process
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 41);
}

}  // namespace
}  // namespace espalier::lab
