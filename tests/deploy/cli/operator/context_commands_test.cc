#include "deploy/cli/operator/context_commands.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include "common/files/file.h"
#include "common/files/json.h"
#include "common/files/trusted_files.h"
#include "deploy/cli/session/contexts.h"
#include "tests/deploy/cli/operator/operator_commands_fixture.h"

namespace espalier::cli {
namespace {

class ContextsTest : public OperatorCommandsTest {
 protected:
  ContextsTest() {
    ::setenv("ESPALIER_CONTEXTS", file_.c_str(), 1);
    ::unsetenv("ESPALIER_CONTROLLER");
  }
  ~ContextsTest() override { ::unsetenv("ESPALIER_CONTEXTS"); }

  // Without the option that names the fixture's controller.
  Outcome RunPlain(std::vector<std::string> arguments) {
    CLI::App app;
    Outcome outcome;
    AddOperatorCommands(app, outcome.exit_code);
    std::reverse(arguments.begin(), arguments.end());
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    try {
      app.parse(arguments);
    } catch (const CLI::ParseError& error) {
      outcome.exit_code = 2;
    }
    AwaitServer();
    std::fflush(stdout);
    outcome.out = testing::internal::GetCapturedStdout();
    outcome.err = testing::internal::GetCapturedStderr();
    return outcome;
  }

  const std::string file_ = folder_.path() + "/new/contexts.json";
};

TEST_F(ContextsTest, SendCommandsToTheirController) {
  EXPECT_EQ(RunPlain({"context", "set", "west", "--controller", address_}).exit_code, 0);
  EXPECT_TRUE(io::ReadSecretFile(file_).has_value()) << "only its owner may read it";
  EXPECT_EQ(RunPlain({"status"}).exit_code, 0) << "the first context is in use";
  EXPECT_EQ(RunPlain({"context", "set", "east", "--controller", "unix:/none"}).exit_code, 0);
  EXPECT_EQ(RunPlain({"status", "--context", "east"}).exit_code, 1);
  EXPECT_EQ(RunPlain({"context", "use", "east"}).exit_code, 0);
  EXPECT_NE(RunPlain({"status"}).err.find("/none"), std::string::npos);
  EXPECT_EQ(RunPlain({"status", "--context", "west"}).exit_code, 0);
  EXPECT_EQ(RunPlain({"status", "--controller", address_}).exit_code, 0);
  ::setenv("ESPALIER_CONTROLLER", address_.c_str(), 1);
  EXPECT_EQ(RunPlain({"status"}).exit_code, 0) << "scripts that name a controller keep it";
  ::unsetenv("ESPALIER_CONTROLLER");
  const std::string list = RunPlain({"context", "list"}).out;
  EXPECT_NE(list.find("east     yes"), std::string::npos) << list;
  EXPECT_EQ(RunPlain({"context", "remove", "east"}).exit_code, 0);
  EXPECT_EQ(io::ParseJson(RunPlain({"context", "list", "--json"}).out, "list")
                ->Find("contexts")
                ->items.size(),
            1U);
}

// A token is for the controller of its context, and for no other.
TEST_F(ContextsTest, KeepTheirTokensToTheirControllers) {
  const std::string token = folder_.path() + "/token";
  RunPlain({"context", "set", "west", "--controller", address_, "--token-file", token});
  EXPECT_EQ(RunPlain({"status"}).exit_code, 2) << "there is no such file";
  EXPECT_EQ(RunPlain({"status", "--controller", address_}).exit_code, 0);
}

TEST_F(ContextsTest, RefuseWhatTheyDoNotKnow) {
  EXPECT_EQ(RunPlain({"context", "set", "west"}).exit_code, 2);
  RunPlain({"context", "set", "west", "--controller", address_});
  const std::string before = *io::ReadFile(file_);
  const Outcome unknown = RunPlain({"context", "use", "wets"});
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_NE(unknown.err.find("did you mean west?"), std::string::npos) << unknown.err;
  EXPECT_EQ(RunPlain({"context", "remove", "x"}).exit_code, 2);
  EXPECT_EQ(RunPlain({"status", "--context", "x"}).exit_code, 2);
  EXPECT_EQ(RunPlain({"status", "--context", "west", "--controller", address_}).exit_code, 2);
  EXPECT_EQ(*io::ReadFile(file_), before);
  for (const char* text :
       {"{", "[]", R"({"contexts": 7})", R"({"contexts": [{"name": "a"}]})", R"({"x": ""})",
        R"({"contexts": [{"name": "a", "controller": "b", "colour": "c"}]})",
        R"({"contexts": [{"name": "a", "controller": "b"}, {"name": "a", "controller": "b"}]})"}) {
    std::ofstream(file_) << text;
    const Outcome broken = RunPlain({"status"});
    EXPECT_EQ(broken.exit_code, 2) << text;
    EXPECT_NE(broken.err.find(file_ + ":1:"), std::string::npos) << text << broken.err;
    EXPECT_EQ(RunPlain({"context", "set", "b", "--controller", "c"}).exit_code, 2) << text;
    EXPECT_EQ(*io::ReadFile(file_), text);
  }
}

}  // namespace
}  // namespace espalier::cli
