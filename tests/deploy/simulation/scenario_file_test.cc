#include "deploy/simulation/scenario_file.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "common/fabric/builders.h"
#include "common/fabric/ecmp/ecmp_hash.h"
#include "common/files/file.h"
#include "common/files/topology_file.h"
#include "tests/common/fabric/hash_names.h"
#include "tests/temporary_folder.h"

namespace espalier::simulation {
namespace {

using namespace std::chrono_literals;

Result<Scenario> Parse(const std::string& text) {
  return ParseScenario(text, "s", [](const std::string& name) -> Result<fabric::Topology> {
    return Fail(ErrorCode::kNotFound, name + ": no such file");
  });
}

// A scenario with these jobs, actions, and other members.
std::string Text(const std::string& jobs, const std::string& actions = "",
                 const std::string& members = "") {
  return R"({"duration_seconds": 9, "leaf_spine": {"spines": 2, "leaves": 2, "hosts_per_leaf": 2},)" +
         members + "\n\"jobs\": [" + jobs + "],\n\"actions\": [" + actions + "]}";
}

const std::string kRing = R"("rings": [{"hosts": ["h0", "h2"], "bytes": 1000}])";

TEST(ScenarioFile, HasDefaults) {
  const auto scenario = Parse(Text(R"({"id": "A", )" + kRing + "}"));
  ASSERT_TRUE(scenario) << scenario.error().message;
  EXPECT_EQ(scenario->mode, Mode::kEspalier);
  EXPECT_EQ(scenario->duration, 9s);
  EXPECT_EQ(scenario->hash, "crc32");
  EXPECT_TRUE(scenario->controller_knows_hashes);
  EXPECT_EQ(scenario->messages.delay, sim::LinkFaults().delay);
  EXPECT_EQ(scenario->fabric.links.size(), 8U);
  ASSERT_EQ(scenario->jobs.size(), 1U);
  const PlayedJob& job = scenario->jobs[0];
  EXPECT_EQ(job.queue_pairs, 1);
  EXPECT_EQ(job.iterations, 1'000'000);
  EXPECT_EQ(job.start, 0s);
}

TEST(ScenarioFile, HasEveryMember) {
  const auto scenario = Parse(Text(
      R"({"id": "A", "model": "M", "start_seconds": 1.5, "period_seconds": "0.25", "epochs": 7,
          "jitter_percent": 3, "queue_pairs": 4, "phases": [
            {"name": "p", "compute_seconds": "0.001",
             "exchanges": [{"kind": "all-to-all", "hosts": ["h0", "h1", "h2"], "bytes": 300},
                           {"kind": "chain", "hosts": ["h0", "h2"], "bytes": 7}]}]})",
      R"({"at_seconds": 1, "do": "fail", "link": "leaf0--spine1"},
         {"at_seconds": 1, "do": "messages", "host": "h3", "delay_us": 70, "jitter_us": 6,
          "loss_percent": 5, "duplication_percent": 4},
         {"at_seconds": "2.5", "do": "rehash", "node": "spine0", "seed": 12})",
      R"("name": "N", "mode": "connections", "hash": "jenkins", "controller_knows_hashes": false,
         "messages": {"loss_percent": 50},)"));
  ASSERT_TRUE(scenario) << scenario.error().message;
  EXPECT_EQ(scenario->name, "N");
  EXPECT_EQ(scenario->mode, Mode::kConnections);
  EXPECT_EQ(scenario->hash, "jenkins");
  EXPECT_FALSE(scenario->controller_knows_hashes);
  EXPECT_EQ(scenario->messages.loss, 0.5);
  const PlayedJob& job = scenario->jobs.at(0);
  EXPECT_EQ(job.start, 1500ms);
  EXPECT_EQ(job.period, 250ms);
  EXPECT_EQ(job.iterations, 7);
  EXPECT_EQ(job.jitter_percent, 3);
  EXPECT_EQ(job.queue_pairs, 4);
  ASSERT_EQ(job.phases.size(), 1U);
  EXPECT_EQ(job.phases[0].compute, 1ms);
  ASSERT_EQ(job.phases[0].bursts.size(), 6U);
  EXPECT_EQ(job.phases[0].bursts[0].bytes, 100U);  // h0 to h1
  EXPECT_EQ(job.phases[0].bursts[1].bytes, 107U);  // h0 to h2, of both exchanges
  ASSERT_EQ(scenario->actions.size(), 3U);
  EXPECT_EQ(scenario->actions[0].kind, ActionKind::kFail);
  EXPECT_EQ(scenario->actions[0].link, "leaf0--spine1");
  EXPECT_EQ(scenario->actions[1].host, 3);
  EXPECT_EQ(scenario->actions[1].faults.delay, 70us);
  EXPECT_EQ(scenario->actions[1].faults.duplication, 0.04);
  EXPECT_EQ(scenario->actions[2].at, 2500ms);
  EXPECT_EQ(scenario->actions[2].hash_seed, 12U);
}

TEST(ScenarioFile, AllRoundsOfARingAreOneBurst) {
  const auto scenario =
      Parse(Text(R"({"id": "A", "rings": [{"hosts": ["h0", "h1", "h2"], "bytes": 300}]})"));
  ASSERT_TRUE(scenario);
  EXPECT_EQ(scenario->jobs[0].phases[0].bursts[0].bytes, 400U);  // 4 rounds of 100
}

TEST(ScenarioFile, NamesThePlaceOfWhatIsWrong) {
  const std::string job = R"({"id": "A", )" + kRing + "}";
  const auto of_job = [](const std::string& members) {
    return Text(R"({"id": "A", )" + members + ", " + kRing + "}");
  };
  const auto act = [&](const std::string& action) { return Text(job, action); };
  const std::pair<std::string, std::string> cases[] = {
      {"", "s:1:1: "},
      {"[]", "s:1:1: "},
      {"{}", "s:1:1: the run must last"},
      {R"({"duration_seconds": 1, "jobs": []})", "either \"leaf_spine\" or \"topology_file\""},
      {R"({"duration_seconds": 1, "topology_file": "x.json", "jobs": []})", "x.json: no such file"},
      {R"({"duration_seconds": 90000, "leaf_spine": {}, "jobs": []})", "s:1:22: the run must last"},
      {R"({"duration_seconds": 1, "leaf_spine": {"spines": 0}, "jobs": []})", "s:1:50: "},
      {R"({"duration_seconds": 1, "leaf_spine": {"leaves": 256, "hosts_per_leaf": 17},
           "jobs": []})",
       "more than 4096 hosts"},
      {R"({"duration_seconds": 1, "leaf_spine": {"leaves": 1, "hosts_per_leaf": 1}, "jobs": []})",
       "at least two hosts"},
      {Text(job, "", R"("mode": "best",)"), "must be espalier, connections or ecmp"},
      {Text(job, "", R"("hash": "md5",)"), "md5"},
      {Text(job, "", R"("messages": {"loss_percent": 101},)"), "s:1:"},
      {Text(job, "", R"("wrong": 1,)"), "wrong"},
      {Text(job + "," + job), "the id is used twice"},
      {Text(R"({"id": "A\u001b", )" + kRing + "}"), "printable"},
      {Text(R"({"id": "A"})"), "s:2:"},
      {Text(R"({"id": "A", "rings": [{"hosts": ["h0", "h9"], "bytes": 1}]})"), "h9"},
      {Text(R"({"id": "A", "rings": [{"hosts": ["h0", "h2"], "bytes": 1125899906842624}]})"),
       "more than 1099511627776 bytes"},
      {of_job(R"("queue_pairs": 17)"), "s:2:"},
      {of_job(R"("jitter_percent": -1)"), "s:2:"},
      {of_job(R"("period_seconds": "x")"), "s:2:"},
      {act(R"({"do": "recompute"})"), "\"at_seconds\" is missing"},
      {act(R"({"at_seconds": 1})"), "\"do\""},
      {act(R"({"at_seconds": 10, "do": "recompute"})"), "after the end of the run"},
      {act(R"({"at_seconds": 2, "do": "recompute"}, {"at_seconds": 1, "do": "recompute"})"),
       "before the one above it"},
      {act(R"({"at_seconds": 1, "do": "explode"})"), "there is no action \"explode\""},
      {act(R"({"at_seconds": 1, "do": "fail"})"), "needs a \"link\" or a \"node\""},
      {act(R"({"at_seconds": 1, "do": "fail", "link": "x"})"), "no link has this id"},
      {act(R"({"at_seconds": 1, "do": "fail", "node": "x"})"), "no node has this id"},
      {act(R"({"at_seconds": 1, "do": "link-down", "link": "h0--leaf0"})"), "between two switches"},
      {act(R"({"at_seconds": 1, "do": "link-down", "node": "h0"})"), "must be a switch"},
      {act(R"({"at_seconds": 1, "do": "rehash"})"), "needs a \"node\""},
      {act(R"({"at_seconds": 1, "do": "rehash", "node": "leaf0", "link": "x"})"), "link"},
      {act(R"({"at_seconds": 1, "do": "agent-down"})"), "host"},
      {act(R"({"at_seconds": 1, "do": "agent-down", "host": "h9"})"), "no host has this name"},
      {act(R"({"at_seconds": 1, "do": "heal", "host": ""})"), "host"},
      {act(R"({"at_seconds": 1, "do": "messages", "host": ""})"), "host"},
      {act(R"({"at_seconds": 1, "do": "agent-up", "host": "h1"})"), "the agent runs then"},
      {act(R"({"at_seconds": 1, "do": "controller-up"})"), "a controller runs then"},
      {act(R"({"at_seconds": 1, "do": "controller-down"},
              {"at_seconds": 2, "do": "drain", "node": "spine0"})"),
       "s:4:39: no controller runs then"},
      {Text(job, R"({"at_seconds": 1, "do": "recompute"})", R"("mode": "ecmp",)"),
       "neither a controller nor an agent"},
  };
  for (const auto& [text, what] : cases) {
    const auto scenario = Parse(text);
    ASSERT_FALSE(scenario) << text;
    EXPECT_NE(scenario.error().message.find(what), std::string::npos) << text << "\n"
                                                                      << scenario.error().message;
    const bool has_place = scenario.error().message.starts_with("s:");
    EXPECT_TRUE(has_place || what.starts_with("x.json")) << scenario.error().message;
  }
}

TEST(ScenarioFile, LimitsConnections) {
  std::string phases;
  std::string hosts;
  for (int i = 0; i < 200; ++i) hosts += (i == 0 ? "\"h" : ", \"h") + std::to_string(i) + "\"";
  const std::string text =
      R"({"duration_seconds": 1, "leaf_spine": {"leaves": 50, "hosts_per_leaf": 4},
          "jobs": [{"id": "A", "queue_pairs": 3, "phases": [{"exchanges":
          [{"kind": "all-to-all", "bytes": 1000, "hosts": [)" +
      hosts + "]}]}]}]}";
  const auto scenario = Parse(text);
  ASSERT_FALSE(scenario);
  EXPECT_NE(scenario.error().message.find("more than 100000 connections"), std::string::npos)
      << scenario.error().message;
}

TEST(ScenarioFile, ReadsItsTopologyFromItsFolder) {
  const TemporaryFolder folder;
  auto spec = *fabric::BuildLeafSpine({.spines = 2, .leaves = 2, .hosts_per_leaf = 1});
  const auto write = [&](const std::string& name, const std::string& text) {
    ASSERT_TRUE(io::WriteFileDurably(folder.path() + "/" + name, text));
  };
  write("fabric.json", io::FormatTopology(spec));
  write("s.json", R"({"duration_seconds": 1, "topology_file": "fabric.json", "jobs": []})");
  const auto scenario = ReadScenario(folder.path() + "/s.json");
  ASSERT_TRUE(scenario) << scenario.error().message;
  EXPECT_EQ(scenario->fabric.nodes.size(), 6U);
  spec.nodes[0].host = spec.nodes[1].host = "both";
  write("fabric.json", io::FormatTopology(spec));
  const auto two_nics = ReadScenario(folder.path() + "/s.json");
  ASSERT_FALSE(two_nics);
  EXPECT_NE(two_nics.error().message.find("second NIC of its host"), std::string::npos)
      << two_nics.error().message;
  EXPECT_EQ(ReadScenario(folder.path() + "/none.json").error().code, ErrorCode::kNotFound);
}

// Seeds that fit the width of every hash.
TEST(Scenario, GivesEverySwitchAHash) {
  for (const std::string& hash : fabric::HashNames()) {
    Scenario scenario;
    scenario.fabric = *fabric::BuildLeafSpine({.spines = 2, .leaves = 2, .hosts_per_leaf = 1});
    scenario.fabric.nodes[2].ecmp = {"toeplitz", 5};
    scenario.hash = hash;
    const auto made = FabricOf(scenario, 3);
    EXPECT_TRUE(CheckFabric(made)) << hash;
    EXPECT_EQ(made.nodes[2].ecmp->hash, "toeplitz");
    EXPECT_FALSE(CheckFabric(scenario.fabric)) << hash;
  }
}

}  // namespace
}  // namespace espalier::simulation
