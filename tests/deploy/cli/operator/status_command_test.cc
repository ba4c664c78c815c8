#include "deploy/cli/operator/status_command.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "common/files/json.h"
#include "tests/deploy/cli/operator/operator_commands_fixture.h"

namespace espalier::cli {
namespace {

using StatusTest = OperatorCommandsTest;

TEST_F(StatusTest, ShowsNoZerosAndSaysWhatFiguresMean) {
  const std::string out = Run({"status"}).out;
  EXPECT_EQ(out.find("health                   ok\n"), 0U) << out;
  EXPECT_NE(out.find("flows                    1: 1 ROUTED\n"), std::string::npos) << out;
  EXPECT_NE(out.find("agents_connected         4 of 4\n"), std::string::npos) << out;
  EXPECT_NE(out.find("the busiest link carries 1 flow: no assignment of these flows has less\n"),
            std::string::npos)
      << out;
  EXPECT_EQ(out.find(" 0\n"), std::string::npos) << out;
  EXPECT_LE(std::ranges::count(out, '\n'), 8) << out;
}

TEST_F(StatusTest, ShowsEveryFigureIfAsked) {
  const std::string out = Run({"status", "-v"}).out;
  const auto json = io::ParseJson(Run({"status", "--json"}).out, "status");
  ASSERT_TRUE(json.has_value());
  for (const auto& [key, value] : json->members) {
    if (key == "health_reasons" || value.kind == io::JsonValue::Kind::kObject) continue;
    EXPECT_NE(out.find("\n" + key + " "), key == "health" ? 0 : std::string::npos) << key;
  }
}

TEST_F(StatusTest, WaitsUntilTheHealthIsOk) {
  EXPECT_EQ(Run({"status", "--wait"}).exit_code, 0);
  ASSERT_EQ(Run({"fail", "link", "h0--leaf0", "--force"}).exit_code, 0);
  const Outcome late = Run({"status", "--wait", "--timeout", "0"});
  EXPECT_EQ(late.exit_code, 1);
  EXPECT_NE(late.out.find("failing"), std::string::npos) << late.out;
  EXPECT_NE(late.err.find("the health is not ok after 0 s"), std::string::npos) << late.err;
  const Outcome json = Run({"status", "--wait", "--timeout", "0", "--json"});
  EXPECT_EQ(json.exit_code, 1);
  EXPECT_EQ(io::ParseJson(json.out, "status")->Find("health")->text, "failing");
  EXPECT_EQ(Run({"status", "--timeout", "1"}).exit_code, 2);
  EXPECT_EQ(Run({"status", "--wait", "--timeout", "-1"}).exit_code, 2);
}

TEST_F(StatusTest, WaitsForAControllerThatDoesNotAnswer) {
  address_ = "unix:" + folder_.path() + "/none.sock";
  const Outcome outcome = Run({"status", "--wait", "--timeout", "0"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_NE(outcome.err.find("is the controller running?"), std::string::npos) << outcome.err;
}

}  // namespace
}  // namespace espalier::cli
