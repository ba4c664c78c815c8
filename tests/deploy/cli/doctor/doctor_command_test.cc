#include "deploy/cli/doctor/doctor_command.h"

#include <set>

#include "common/files/json.h"
#include "tests/deploy/cli/operator/operator_commands_fixture.h"
#include "tests/deploy/cli/run_command.h"

namespace espalier::cli {
namespace {

class DoctorTest : public OperatorCommandsTest {
 protected:
  auto Doctor(const std::string& arguments) {
    auto outcome = RunCommand(doctor::AddDoctorCommand, "doctor " + arguments);
    AwaitServer();
    return outcome;
  }
};

TEST_F(DoctorTest, ChecksThisMachineAndTheController) {
  const auto outcome = Doctor("--json --agent unix:/none --controller " + address_);
  const auto json = io::ParseJson(outcome.output, "doctor");
  ASSERT_TRUE(json.has_value()) << outcome.output << outcome.errors;
  std::set<std::string> checks;
  for (const io::JsonValue& check : json->Find("checks")->items) {
    checks.insert(check.Find("place")->text + " " + check.Find("check")->text);
    if (check.Find("place")->text != "controller") continue;
    EXPECT_NE(check.Find("state")->text, "failed") << check.Find("found")->text;
  }
  for (const char* const expected : {"host kernel",
                                     "host device",
                                     "host gid",
                                     "host mtu",
                                     "host uplinks",
                                     "host ecn",
                                     "host pfc",
                                     "host counters",
                                     "host nccl",
                                     "host clock",
                                     "host versions",
                                     "host keys",
                                     "host agent",
                                     "host probe_answers",
                                     "controller health",
                                     "controller agents",
                                     "controller source_port",
                                     "controller polarisation",
                                     "controller spraying",
                                     "controller capacity",
                                     "controller clock"}) {
    EXPECT_TRUE(checks.contains(expected)) << expected;
  }
  EXPECT_EQ(outcome.code, json->Find("failed")->text == "0" ? 0 : 1);
  EXPECT_EQ(outcome.errors, "");
}

TEST_F(DoctorTest, FailsIfTheNamedControllerDoesNotAnswer) {
  const std::string named = "--controller unix:" + folder_.path() + "/none.sock";
  const auto json = io::ParseJson(Doctor("--json " + named).output, "doctor");
  ASSERT_TRUE(json.has_value());
  const io::JsonValue& last = json->Find("checks")->items.back();
  EXPECT_EQ(last.Find("check")->text, "controller");
  EXPECT_EQ(last.Find("state")->text, "failed");
  EXPECT_NE(last.Find("remedy")->text, "");
  const auto outcome = Doctor(named);
  EXPECT_EQ(outcome.code, 1);
  EXPECT_EQ(outcome.output.find("PLACE"), 0U) << outcome.output;
  EXPECT_NE(outcome.output.find("\nWhat to do:\n"), std::string::npos) << outcome.output;
}

TEST_F(DoctorTest, RefusesBadUsage) {
  EXPECT_EQ(Doctor("--process 0").code, 2);
  EXPECT_EQ(Doctor("--process 999999999").code, 2);
  EXPECT_EQ(Doctor("here").code, 2);
}

}  // namespace
}  // namespace espalier::cli
