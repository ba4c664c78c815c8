#include "deploy/cli/operator/operator_commands.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <map>
#include <regex>

#include "common/files/json.h"
#include "common/http/http_client.h"
#include "tests/deploy/cli/operator/operator_commands_fixture.h"

namespace espalier::cli {
namespace {

TEST_F(OperatorCommandsTest, ShowsTables) {
  const Outcome flows = Run({"flows"});
  EXPECT_EQ(flows.exit_code, 0);
  EXPECT_NE(flows.out.find("h0:5"), std::string::npos) << flows.out;
  EXPECT_NE(flows.out.find("spine0"), std::string::npos);
  EXPECT_NE(Run({"links"}).out.find("leaf1--spine1"), std::string::npos);
  EXPECT_NE(Run({"agents"}).out.find("h3"), std::string::npos);
  EXPECT_NE(Run({"plans"}).out.find("ASSIGNED"), std::string::npos);
  EXPECT_TRUE(std::regex_search(Run({"events"}).out, std::regex("agent_up +agent=h0")));
  EXPECT_NE(Run({"explain", "--verbose", "h0:5"}).out.find("VERIFIED"), std::string::npos);
  EXPECT_NE(Run({"status"}).out.find("agents_connected"), std::string::npos);
}

TEST_F(OperatorCommandsTest, PrintsOneJsonObjectWhenAsked) {
  for (const char* command : {"status", "flows", "jobs", "links", "nodes", "agents", "plans",
                              "events", "intents", "audit"}) {
    const Outcome outcome = Run({command, "--json"});
    EXPECT_EQ(outcome.exit_code, 0) << command;
    EXPECT_TRUE(io::ParseJson(outcome.out, command).has_value()) << outcome.out;
  }
}

// Times differ between two answers.
std::string WithoutTimes(const std::string& json) {
  static const std::regex kTimes("\"(time|age_seconds|silent_seconds)\":[^,}]*");
  return std::regex_replace(json, kTimes, "\"$1\":0");
}

// A list that is read in pages prints as if it came in one answer.
TEST_F(OperatorCommandsTest, AsksForLongListsInPages) {
  std::vector<controller::Cluster::NewFlow> flows;
  for (std::uint64_t id = 100; id < 1'300; ++id) flows.push_back({.id = id, .to = 2, .job = "A"});
  cluster_.Open(0, flows);
  cluster_.Settle();
  for (int i = 0; i < 2'100; ++i) {
    cluster_.state().history.Record(cluster_.controller().Now(), "test",
                                    "\"\\\t é " + std::to_string(i));
  }
  const std::map<std::string, int> pages = {
      {"flows", 2}, {"plans", 2}, {"links", 1}, {"agents", 1}, {"events", 3}};
  for (const auto& [list, count] : pages) {
    const auto whole =
        io::HttpFetch(address_, "GET", "/api/v1/" + list, "", std::chrono::seconds(60));
    ASSERT_TRUE(whole.has_value());
    pages_ = 0;
    const Outcome json = Run({list, "--json"});
    EXPECT_EQ(json.exit_code, 0) << json.err;
    EXPECT_EQ(pages_, count) << list;
    EXPECT_TRUE(WithoutTimes(json.out) == WithoutTimes(whole->body + "\n")) << list;
    const auto items = io::ParseJson(whole->body, list)->Find(list)->items.size();
    const Outcome text = Run({list});
    const auto lines = static_cast<std::size_t>(std::ranges::count(text.out, '\n'));
    EXPECT_EQ(lines, items + 1) << list;
  }
}

TEST_F(OperatorCommandsTest, StartsListsAndStopsJobs) {
  const Outcome dry = Run({"job", "start", "--ranks", "h0,h1,h2", "--dry-run"});
  EXPECT_EQ(dry.exit_code, 0) << dry.err;
  EXPECT_EQ(dry.out, "job job could be started: 3 ranks\n");
  std::ofstream(folder_.path() + "/ranks.json") << R"(["h0", "h2"])";
  const Outcome started = Run({"job", "start", "train", "--ranks", folder_.path() + "/ranks.json",
                               "--bytes", "1000000", "--offload"});
  EXPECT_EQ(started.exit_code, 0) << started.err;
  EXPECT_EQ(started.out, "job train started: 2 ranks\n");
  EXPECT_NE(started.err.find("name its user with --user"), std::string::npos) << started.err;
  EXPECT_NE(Run({"job", "list"}).out.find("train"), std::string::npos);
  EXPECT_TRUE(io::ParseJson(Run({"job", "list", "--json"}).out, "list").has_value());
  EXPECT_NE(Run({"intents"}).out.find("train"), std::string::npos);

  // Starting the same job again is done already; starting another one of the same name fails.
  EXPECT_EQ(Run({"job", "start", "train", "--ranks", "h0,h2", "--bytes", "1000000", "--offload"})
                .exit_code,
            0);
  EXPECT_EQ(Run({"job", "start", "train", "--ranks", "h0,h2", "--bytes", "1000000", "--offload",
                 "--transport", "verbs"})
                .exit_code,
            1);
  EXPECT_EQ(Run({"job", "start", "train", "--ranks", "h0,h3"}).exit_code, 1);
  EXPECT_EQ(Run({"job", "stop", "train"}).exit_code, 0);
  EXPECT_EQ(Run({"job", "stop", "train"}).exit_code, 1);

  const Outcome own = Run({"job", "start", "own", "--ranks", "h0,h3", "--user", "alice"});
  EXPECT_EQ(own.exit_code, 0);
  EXPECT_EQ(own.err.find("--user"), std::string::npos) << own.err;
  EXPECT_NE(Run({"job", "list"}).out.find("alice"), std::string::npos);
  EXPECT_EQ(Run({"job", "start", "own", "--ranks", "h0,h3", "--user", "bob"}).exit_code, 1);
  EXPECT_EQ(Run({"job", "start", "--ranks", "h0,h1", "--user", ""}).exit_code, 2);
  EXPECT_EQ(Run({"job", "start", "--ranks", "h0,h1", "--user", "Al ice"}).exit_code, 2);

  EXPECT_EQ(Run({"job", "start"}).exit_code, 2);
  EXPECT_EQ(Run({"job", "start", "--ranks", "h0,h9"}).exit_code, 2);
  EXPECT_EQ(Run({"job", "start", "--ranks", "h0,h0"}).exit_code, 2);
  EXPECT_EQ(Run({"job", "start", "--ranks", "h0"}).exit_code, 2);
  EXPECT_EQ(Run({"job", "start", "--ranks", "h0,h1", "--collective", "magic"}).exit_code, 2);
  EXPECT_EQ(Run({"job", "start", "--ranks", "h0,h1", "--transport", "smoke"}).exit_code, 2);
  std::ofstream(folder_.path() + "/ranks.json") << "[1,";
  EXPECT_EQ(Run({"job", "start", "--ranks", folder_.path() + "/ranks.json"}).exit_code, 2);
}

TEST_F(OperatorCommandsTest, ActsAndTellsWhatMoved) {
  const Outcome dry = Run({"fail", "link", "leaf0--spine0", "--dry-run"});
  EXPECT_EQ(dry.exit_code, 0);
  EXPECT_NE(dry.out.find("would move 1 flow"), std::string::npos) << dry.out;
  const Outcome failed = Run({"fail", "link", "leaf0--spine0", "--reason", "dirty optics & more"});
  EXPECT_NE(failed.out.find("moved 1 flow"), std::string::npos) << failed.out << failed.err;
  EXPECT_NE(Run({"links"}).out.find("dirty optics & more"), std::string::npos);
  EXPECT_EQ(Run({"restore", "link", "leaf0--spine0"}).exit_code, 0);
  const Outcome recomputed = Run({"recompute"});
  EXPECT_EQ(recomputed.exit_code, 0);
  EXPECT_NE(recomputed.out.find("max load 1 (before: 1), bound 1: no assignment of these flows"),
            std::string::npos)
      << recomputed.out;
  EXPECT_NE(recomputed.out.find("flows with 0 bytes in flight"), std::string::npos);
  EXPECT_EQ(Run({"recompute", "--move-bytes", "0"}).exit_code, 0);
  EXPECT_EQ(Run({"recompute", "--move-bytes", "few"}).exit_code, 2);
  EXPECT_EQ(Run({"drain", "link", "leaf0--spine1"}).exit_code, 0);
  EXPECT_EQ(Run({"undrain", "link", "leaf0--spine1"}).exit_code, 0);
}

TEST_F(OperatorCommandsTest, CutsOffNoFlowWithoutForce) {
  const Outcome dry = Run({"fail", "link", "h0--leaf0", "--dry-run"});
  EXPECT_EQ(dry.exit_code, 0);
  EXPECT_NE(dry.out.find("on links that are down (before: 0)"), std::string::npos) << dry.out;
  const Outcome refused = Run({"fail", "link", "h0--leaf0"});
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_NE(refused.err.find("this would cut off"), std::string::npos) << refused.err;
  EXPECT_NE(refused.err.find("--force"), std::string::npos) << refused.err;
  EXPECT_EQ(Run({"intents"}).out.find("h0--leaf0"), std::string::npos);
  const auto json = io::ParseJson(Run({"fail", "link", "h0--leaf0", "--json"}).out, "the refusal");
  ASSERT_TRUE(json.has_value());
  const io::JsonValue* const error = json->Find("error");
  ASSERT_NE(error, nullptr);
  EXPECT_EQ(error->Find("code")->text, "failed precondition");
  EXPECT_EQ(error->Find("remedy")->text,
            "give --force to do it all the same; --dry-run shows which");
  EXPECT_EQ(Run({"fail", "link", "h0--leaf0", "--force"}).exit_code, 0);
  const Outcome status = Run({"status"});
  EXPECT_EQ(status.out.find("health"), 0U);
  EXPECT_NE(status.out.find("failing"), std::string::npos) << status.out;
  EXPECT_NE(status.out.find("on a link that is down"), std::string::npos) << status.out;
}

TEST_F(OperatorCommandsTest, ExtendsADrainAndTellsIt) {
  EXPECT_EQ(Run({"drain", "node", "spine0", "--until", "2h", "--reason", "firmware"}).exit_code, 0);
  const Outcome extended = Run({"drain", "node", "spine0", "--until", "3d"});
  EXPECT_EQ(extended.exit_code, 0) << extended.err;
  EXPECT_NE(extended.out.find("changed: drained node spine0"), std::string::npos) << extended.out;
  EXPECT_NE(extended.out.find("firmware"), std::string::npos) << extended.out;
  const Outcome endless = Run({"drain", "node", "spine0", "--until", "never"});
  EXPECT_NE(endless.out.find("changed: drained node spine0"), std::string::npos) << endless.out;
  EXPECT_EQ(endless.out.find("until"), std::string::npos) << endless.out;
  const Outcome again = Run({"drain", "node", "spine0", "--json"});
  EXPECT_EQ(again.exit_code, 0);
  EXPECT_NE(again.out.find("already exists"), std::string::npos) << again.out;
}

TEST_F(OperatorCommandsTest, DrainsUntilATimeAndTellsWhoDidIt) {
  const Outcome drained =
      Run({"drain", "node", "spine0", "--until", "+2h", "--reason", "new firmware"});
  EXPECT_EQ(drained.exit_code, 0) << drained.err;
  EXPECT_NE(Run({"intents"}).out.find("drained node"), std::string::npos);
  EXPECT_NE(Run({"rollback", "--dry-run"}).out.find("would move 0"), std::string::npos);
  EXPECT_EQ(Run({"rollback", "--reason", "too early"}).exit_code, 0);
  EXPECT_EQ(Run({"intents"}).out.find("spine0"), std::string::npos);
  const Outcome audit = Run({"audit"});
  EXPECT_NE(audit.out.find("new firmware"), std::string::npos) << audit.out;
  EXPECT_NE(audit.out.find("rollback"), std::string::npos);
  EXPECT_NE(audit.out.find("user "), std::string::npos);  // by its unix socket
  EXPECT_EQ(Run({"rollback", "--to", "77"}).exit_code, 1);
  EXPECT_EQ(Run({"drain", "node", "spine0", "--until", "tomorrow"}).exit_code, 2);
  EXPECT_EQ(Run({"undrain", "node", "spine0", "--until", "+2h"}).exit_code, 2);
}

TEST_F(OperatorCommandsTest, SetsWeightsAndPolicies) {
  EXPECT_NE(Run({"weight", "A", "2", "--dry-run"}).out.find("would move 0"), std::string::npos);
  EXPECT_EQ(Run({"weight", "A", "2", "--until", "+1h", "--reason", "late"}).exit_code, 0);
  EXPECT_NE(Run({"intents"}).out.find("late"), std::string::npos);
  EXPECT_EQ(Run({"weight", "A", "1"}).exit_code, 0);
  EXPECT_EQ(Run({"weight", "A", "heavy"}).exit_code, 2);
  EXPECT_EQ(Run({"weight", "A", "0"}).exit_code, 2);
  EXPECT_EQ(Run({"policy", "set", "algorithm", "greedy", "--reason", "compare"}).exit_code, 0);
  EXPECT_NE(Run({"policy", "list"}).out.find("greedy"), std::string::npos);
  EXPECT_TRUE(io::ParseJson(Run({"policy", "list", "--json"}).out, "list").has_value());
  EXPECT_EQ(Run({"policy", "reset", "algorithm"}).exit_code, 0);
  EXPECT_EQ(Run({"policy", "set", "algorithm", "best"}).exit_code, 2);
  EXPECT_EQ(Run({"policy", "set", "topology_file", "x"}).exit_code, 1);
}

TEST_F(OperatorCommandsTest, PassesATelemetryFeedToTheController) {
  const std::string file = folder_.path() + "/feed";
  const std::string down = R"({"link": "leaf0--spine1", "up": false, "source": "gnmi"})";
  std::ofstream(file) << down << "\n\n" << down << "\n";
  const Outcome taken = Run({"report", "links", file});
  EXPECT_EQ(taken.exit_code, 0) << taken.err;
  EXPECT_EQ(taken.out, "2 reports taken\n");
  const Outcome links = Run({"links"});
  EXPECT_NE(links.out.find("DOWN"), std::string::npos) << links.out;

  // A request with an invalid line has no effect; with --follow the feed continues.
  std::ofstream(file) << R"({"link": "leaf0--spine0", "up": false})"
                      << "\n{\"link\": 7}\n";
  for (const bool follow : {false, true}) {
    std::vector<std::string> arguments = {"report", "links", file};
    if (follow) arguments.emplace_back("--follow");
    const Outcome refused = Run(arguments);
    EXPECT_EQ(refused.exit_code, 2);
    EXPECT_NE(refused.err.find("line 2: \"link\" is missing"), std::string::npos) << refused.err;
    EXPECT_EQ(refused.out, follow ? "0 reports taken\n" : "");
  }
  EXPECT_EQ(Run({"links"}).out, links.out);
  const Outcome missing = Run({"report", "links", folder_.path() + "/none"});
  EXPECT_EQ(missing.exit_code, 2);
  EXPECT_NE(missing.err.find("cannot read"), std::string::npos);
}

TEST_F(OperatorCommandsTest, PassesAScheduleToTheController) {
  const std::string file = folder_.path() + "/schedule.json";
  std::ofstream(file) << R"({"job": "B", "bytes": 1000, "flows": [["h0", "h2"], ["h2", "h0"]]})";
  const Outcome taken = Run({"report", "schedule", file});
  EXPECT_EQ(taken.exit_code, 0) << taken.err;
  EXPECT_EQ(taken.out, "2 flows taken\n");
  EXPECT_NE(Run({"predict"}).out.find('B'), std::string::npos);
  std::ofstream(file) << R"({"job": "B", "flows": [["h0", "h99"]]})";
  const Outcome refused = Run({"report", "schedule", file});
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_NE(refused.err.find("h99"), std::string::npos) << refused.err;
  EXPECT_EQ(Run({"report", "schedule", folder_.path() + "/none"}).exit_code, 2);
}

TEST_F(OperatorCommandsTest, SaysOnStandardErrorThatThereWasNothingToDo) {
  Run({"fail", "link", "leaf0--spine0"});
  const Outcome again = Run({"fail", "link", "leaf0--spine0"});
  EXPECT_EQ(again.exit_code, 0);
  EXPECT_EQ(again.out, "");
  EXPECT_NE(again.err.find("is already failed"), std::string::npos) << again.err;
}

TEST_F(OperatorCommandsTest, FailsWithCodesAndReasons) {
  const Outcome unknown = Run({"fail", "link", "nowhere"});
  EXPECT_EQ(unknown.exit_code, 1);
  EXPECT_NE(unknown.err.find("there is no link \"nowhere\""), std::string::npos) << unknown.err;
  EXPECT_EQ(Run({"explain", "h0:99"}).exit_code, 1);
  EXPECT_EQ(Run({"fail", "link"}).exit_code, 2);
  EXPECT_EQ(Run({"fail", "cable", "x"}).exit_code, 2);
  address_ = "unix:" + folder_.path() + "/nobody.sock";
  const Outcome nobody = Run({"status"});
  EXPECT_EQ(nobody.exit_code, 1);
  EXPECT_NE(nobody.err.find("is the controller running?"), std::string::npos) << nobody.err;
  address_ = "foo";
  const Outcome wrong = Run({"status"});
  EXPECT_EQ(wrong.exit_code, 2);
  EXPECT_EQ(wrong.err.find("is the controller running?"), std::string::npos) << wrong.err;
}

}  // namespace
}  // namespace espalier::cli
