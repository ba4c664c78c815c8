#include "deploy/cli/command_line/parse.h"

#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "common/files/command_result.h"
#include "common/files/json.h"

namespace espalier::cli {
namespace {

// A tool with the commands "status", "flows --limit COUNT", "fail link ID", "check", which reports
// an error, and "forest", which has options or the command "verify".
class CommandLineTest : public testing::Test {
 protected:
  struct Outcome {
    int exit_code = 0;
    std::string out;
    std::string err;
  };

  static Outcome Run(std::vector<std::string> words) {
    CLI::App app("A tool", "espalier");
    app.require_subcommand(1);
    int exit_code = 0;
    bool json = false;
    std::size_t limit = 0;
    std::string id;
    app.add_subcommand("status", "Show the state")->callback([&] { exit_code = 7; });
    CLI::App* flows = app.add_subcommand("flows", "List flows");
    flows->add_option("--limit", limit, "So many")->check(CLI::Range(1, 10));
    flows->add_flag("--json", json, "Print JSON");
    CLI::App* fail = app.add_subcommand("fail", "Fail something");
    fail->require_subcommand(1);
    for (const char* kind : {"link", "node"}) {
      fail->add_subcommand(kind, "Fail it")->add_option("ID", id, "The link or node")->required();
    }
    words.insert(words.begin(), "espalier");
    CLI::App* check = app.add_subcommand("check", "Check a file");
    check->add_flag("--json", json, "Print JSON");
    check->callback([&] {
      exit_code = io::ReportError({ErrorCode::kNotFound, "a.json: cannot open (name another)"});
    });
    CLI::App* forest = app.add_subcommand("forest", "Make trees");
    forest->add_option("--topology", id, "The file");
    forest->add_subcommand("verify", "Verify trees");
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    const int code =
        ParseAndRun(app, static_cast<int>(arguments.size()), arguments.data(), exit_code);
    return {code, testing::internal::GetCapturedStdout(), testing::internal::GetCapturedStderr()};
  }
};

TEST_F(CommandLineTest, RunsACommandAndReturnsItsCode) { EXPECT_EQ(Run({"status"}).exit_code, 7); }

TEST_F(CommandLineTest, SuggestsTheCommandThatMayBeMeant) {
  for (const auto& [word, meant] : std::vector<std::pair<std::string, std::string>>{
           {"statu", "status"}, {"flow", "flows"}, {"sttaus", "status"}, {"stat", "status"}}) {
    const Outcome outcome = Run({word});
    EXPECT_EQ(outcome.exit_code, 2);
    EXPECT_EQ(outcome.err, "espalier: there is no command \"espalier " + word +
                               "\" (did you mean `espalier " + meant + "`?)\n");
  }
  EXPECT_EQ(Run({"fail", "lnk", "x"}).err,
            "espalier: there is no command \"espalier fail lnk\" (did you mean `espalier fail "
            "link`?)\n");
  // What the command acts on shows which one is meant.
  EXPECT_EQ(Run({"fail", "leaf0--spine1"}).err,
            "espalier: there is no command \"espalier fail leaf0--spine1\" (did you mean `espalier "
            "fail link leaf0--spine1`?)\n");
  EXPECT_EQ(Run({"fail", "spine1"}).err,
            "espalier: there is no command \"espalier fail spine1\" (did you mean `espalier fail "
            "node spine1`?)\n");
  EXPECT_EQ(Run({"banana"}).err,
            "espalier: there is no command \"espalier banana\" (`espalier --help` lists the "
            "commands)\n");
  EXPECT_EQ(Run({}).err,
            "espalier: `espalier` needs a command (`espalier --help` lists the commands)\n");
  EXPECT_EQ(Run({"fail"}).err,
            "espalier: `espalier fail` needs a command (`espalier fail --help` lists the "
            "commands)\n");
}

TEST_F(CommandLineTest, HelpIsACommand) {
  const Outcome all = Run({"help"});
  EXPECT_EQ(all.exit_code, 0);
  EXPECT_NE(all.out.find("List flows"), std::string::npos);
  const Outcome none = Run({"help", "flwos"});
  EXPECT_EQ(none.exit_code, 2);
  EXPECT_NE(none.err.find("there is no command \"espalier flwos\""), std::string::npos) << none.err;
  EXPECT_EQ(Run({"help", "fail"}).exit_code, 0);
  const Outcome one = Run({"help", "fail", "link"});
  EXPECT_EQ(one.exit_code, 0);
  EXPECT_NE(one.out.find("The link"), std::string::npos);
}

TEST_F(CommandLineTest, ThereIsNoHelpForUnknownCommands) {
  EXPECT_EQ(Run({"statu", "--help"}).exit_code, 2);
  EXPECT_EQ(Run({"statu", "--help"}).err,
            "espalier: there is no command \"espalier statu\" (did you mean `espalier status`?)\n");
  EXPECT_EQ(Run({"fail", "lnk", "-h"}).exit_code, 2);
  EXPECT_EQ(Run({"flows", "--limit", "3", "--help"}).exit_code, 0);
  EXPECT_EQ(Run({"fail", "--help"}).exit_code, 0);
  EXPECT_EQ(Run({"--help"}).exit_code, 0);
  EXPECT_EQ(Run({"forest", "--topology", "a.json", "--help"}).exit_code, 0);
}

TEST_F(CommandLineTest, KnowsTheCommandsOfACommandThatNeedsNone) {
  EXPECT_EQ(Run({"forest", "verify"}).exit_code, 0);
  EXPECT_EQ(Run({"forest", "--topology", "verfy"}).exit_code, 0);
  for (const auto& more : std::vector<std::vector<std::string>>{{}, {"a.json"}, {"--help"}}) {
    std::vector<std::string> words = {"forest", "verfy"};
    words.insert(words.end(), more.begin(), more.end());
    EXPECT_EQ(Run(words).exit_code, 2);
    EXPECT_EQ(Run(words).err,
              "espalier: there is no command \"espalier forest verfy\" (did you mean `espalier "
              "forest verify`?)\n");
  }
}

TEST_F(CommandLineTest, ErrorsOfEveryCommandAreJsonIfAskedFor) {
  const Outcome failed = Run({"check", "--json"});
  EXPECT_EQ(failed.exit_code, 2);
  EXPECT_EQ(failed.err, "espalier: a.json: cannot open (name another)\n");
  EXPECT_EQ(failed.out,
            "{\"error\":{\"code\":\"not found\",\"message\":\"a.json: cannot open\","
            "\"remedy\":\"name another\"}}\n");
  EXPECT_EQ(Run({"check"}).out, "");
}

TEST_F(CommandLineTest, TellsWrongOptionsInTheSameVoice) {
  const Outcome wrong = Run({"flows", "--limit", "many", "--json"});
  EXPECT_EQ(wrong.exit_code, 2);
  EXPECT_EQ(wrong.err.find("espalier: --limit"), 0U) << wrong.err;
  EXPECT_NE(wrong.err.find("(see `espalier flows --help`)"), std::string::npos) << wrong.err;
  const auto json = io::ParseJson(wrong.out, "the error");
  ASSERT_TRUE(json.has_value()) << wrong.out;
  EXPECT_EQ(json->Find("error")->Find("code")->text, "invalid argument");
  EXPECT_EQ(json->Find("error")->Find("remedy")->text, "see `espalier flows --help`");
  for (const auto& words : std::vector<std::vector<std::string>>{
           {"flows", "--limit", "-3"}, {"flows", "--limit=-3"}, {"fail", "link", "-3"}}) {
    EXPECT_EQ(Run(words).exit_code, 2);
    EXPECT_EQ(Run(words).err, "espalier: \"-3\" is negative (give a number from 0 on)\n");
  }
  EXPECT_EQ(Run({"flows", "--bogus"}).out, "");
}

}  // namespace
}  // namespace espalier::cli
