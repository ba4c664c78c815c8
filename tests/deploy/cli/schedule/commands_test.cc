#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <set>
#include <string>

#include "common/files/file.h"
#include "common/files/json.h"
#include "common/files/topology_file.h"
#include "deploy/cli/schedule/network_commands.h"
#include "deploy/cli/schedule/schedule_commands.h"
#include "deploy/cli/setup/topology_commands.h"
#include "tests/deploy/cli/run_command.h"
#include "tests/temporary_folder.h"

namespace espalier::synthesis {
namespace {

using cli::Outcome;
using testing::HasSubstr;
using testing::StartsWith;

class ScheduleCommands : public testing::Test {
 protected:
  static Outcome Run(const std::string& arguments) {
    return cli::RunCommand(
        [](CLI::App& app, int& exit_code) {
          cli::AddTopologyCommands(app, exit_code);
          AddNetworkCommands(*app.get_subcommand("topology"), exit_code);
          AddScheduleCommands(app, exit_code);
        },
        arguments);
  }
  // Runs `topology make KIND` into a file, and returns its path.
  std::string Make(const std::string& kind) const {
    const Outcome made = Run("topology make " + kind + " -o " + Path("net.json"));
    EXPECT_EQ(made.code, 0) << kind << ": " << made.errors;
    return Path("net.json");
  }
  static io::JsonValue Json(const std::string& text) {
    auto json = io::ParseJson(text, "output");
    EXPECT_TRUE(json.has_value()) << text.substr(0, 200);
    return json.value_or(io::JsonValue());
  }
  std::string Path(const std::string& name) const { return temporary_.path() + "/" + name; }

 private:
  TemporaryFolder temporary_;
};

TEST_F(ScheduleCommands, MakeAndVerifyFitTogether) {
  const std::string net = Make("circulant --nodes 16");
  for (const std::string collective : {"allgather", "reduce-scatter", "allreduce"}) {
    const std::string schedule = Path("s.json");
    const Outcome made = Run("schedule make bfb --topology " + net + " --collective " + collective +
                             " -o " + schedule);
    ASSERT_EQ(made.code, 0) << made.errors;
    const bool both = collective == "allreduce";
    const Outcome verified = Run("schedule verify --topology " + net + " " + schedule);
    EXPECT_EQ(verified.code, 0) << verified.errors;
    EXPECT_THAT(verified.output, HasSubstr("the schedule is valid"));
    EXPECT_THAT(verified.output, HasSubstr(both ? "T_L 6 alpha, T_B 15/8 M/B (1 times"
                                                : "T_L 3 alpha, T_B 15/16 M/B (1 times"));
    const io::JsonValue verdict =
        Json(Run("schedule verify --json --topology " + net + " " + schedule).output);
    EXPECT_TRUE(verdict.Find("valid")->boolean);
    EXPECT_EQ(verdict.Find("t_b")->text, both ? "15/8" : "15/16");
    EXPECT_EQ(verdict.Find("over_bound")->text, "1");
    EXPECT_EQ(verdict.Find("busiest")->items.size(), both ? 6U : 3U);
  }
}

TEST_F(ScheduleCommands, VerifyNamesTheFirstViolation) {
  const std::string net = Make("ring --nodes 4");
  const std::string text = Run("schedule make bfb --topology " + net).output;
  std::string broken = text;
  broken.replace(broken.find("\"to\":\"n1\""), 9, "\"to\":\"n3\"");
  ASSERT_TRUE(io::WriteFileDurably(Path("b.json"), broken).has_value());
  const Outcome verified = Run("schedule verify --topology " + net + " " + Path("b.json"));
  EXPECT_EQ(verified.code, 1);
  EXPECT_EQ(verified.output, "");
  EXPECT_THAT(verified.errors, StartsWith("espalier: " + Path("b.json") + ": "));
  EXPECT_THAT(verified.errors, HasSubstr("of the shard of node n"));
  const Outcome json = Run("schedule verify --json --topology " + net + " " + Path("b.json"));
  EXPECT_EQ(json.code, 1);
  EXPECT_FALSE(Json(json.output).Find("valid")->boolean);
  EXPECT_NE(Json(json.output).Find("violation")->text, "");
}

TEST_F(ScheduleCommands, MakeWritesProgramsOfEveryFormat) {
  const std::string net = Make("hamming --dimension 2 --size 3");
  const std::string make = "schedule make bfb --collective allreduce --topology " + net;
  EXPECT_THAT(Run(make + " --format program").output, StartsWith("{\"name\":\"bfb-allreduce\""));
  EXPECT_THAT(Run(make + " --format msccl-xml").output, HasSubstr("<algo name=\"bfb-allreduce\""));
  EXPECT_EQ(Run(make + " --format mscclpp-json").code, 0);
  EXPECT_THAT(Run(make + " --format summary").output, HasSubstr("allreduce of 9 nodes: 4 steps"));
}

TEST_F(ScheduleCommands, MakeOffersTheClassicRing) {
  const std::string net = Make("ring --nodes 6");
  EXPECT_THAT(Run("schedule make ring --topology " + net + " --format summary").output,
              HasSubstr("T_L 5 alpha, T_B 5/6 M/B"));
  EXPECT_THAT(Run("schedule make bfb --topology " + net + " --format summary").output,
              HasSubstr("T_L 3 alpha, T_B 5/6 M/B"));
}

TEST_F(ScheduleCommands, MakeCutsShardsIntoAGivenNumberOfChunks) {
  const std::string net = Make("ring --nodes 6");
  EXPECT_THAT(Run("schedule make bfb --chunks 1 --topology " + net + " --format summary").output,
              HasSubstr("1 chunk a shard"));
  EXPECT_THAT(Run("schedule make bfb --chunks 1 --topology " + net + " --format summary").output,
              HasSubstr("T_B 1 M/B"));
}

TEST_F(ScheduleCommands, MakeUsesTheScheduleOfAConstruction) {
  const std::string text = "\"Degree(UniRing(1, 4), 2)\"";
  const std::string net = Make("direct " + text);
  EXPECT_THAT(Run("schedule make construction --construction " + text + " --topology " + net +
                  " --format summary")
                  .output,
              HasSubstr("T_L 4 alpha, T_B 7/8 M/B"));
  const Outcome other =
      Run("schedule make construction --construction \"Complete(8)\" --topology " + net);
  EXPECT_EQ(other.code, 2);
  EXPECT_THAT(other.errors, HasSubstr("not that of the construction"));
}

TEST_F(ScheduleCommands, MakeRoutesAnAllToAll) {
  const std::string make = "schedule make alltoall --topology " + Make("circulant --nodes 16");
  EXPECT_THAT(Run(make + " --format summary").output,
              HasSubstr("rate of a message 1/8 of a link (0.125), at most 0 % below the best"));
  const io::JsonValue figures = Json(Run(make).output);
  EXPECT_EQ(figures.Find("rate")->text, "1/8");
  EXPECT_EQ(figures.Find("rate_bound")->text, "1/8");
  EXPECT_EQ(figures.Find("t_l")->text, "3");
  EXPECT_THAT(Run(make + " --format program").output, StartsWith("{\"name\":\"alltoall\""));
  EXPECT_THAT(Run(make + " --format msccl-xml --chunks 2").output, HasSubstr("<algo name="));
}

TEST_F(ScheduleCommands, MakeRoutesUnequalMessages) {
  const std::string net = Make("ring --nodes 4 --gbps 8");
  const std::string make =
      "schedule make alltoall --topology " + net + " --demand " + Path("d.json");
  const auto run = [&](const std::string& demand, const std::string& options = "") {
    EXPECT_TRUE(io::WriteFileDurably(Path("d.json"), demand).has_value());
    return Run(make + options);
  };
  // Both ways round carry half of the 10^9 bytes, at 10^9 bytes a second.
  const io::JsonValue figures = Json(run(R"({"n0": {"n2": 1000000000}})").output);
  EXPECT_NEAR(std::stod(figures.Find("seconds")->text), 0.5, 0.01);
  EXPECT_NEAR(std::stod(figures.Find("least_seconds")->text), 0.5, 0.01);
  EXPECT_LE(std::stod(figures.Find("least_seconds")->text), 0.5 + 1e-9);
  EXPECT_THAT(run(R"({"n0": {"n2": 5}})", " --format summary").output, HasSubstr("the demand"));
  for (const auto& [demand, what] : std::vector<std::pair<std::string, std::string>>{
           {"[]", ":1:1: "},
           {R"({"n9": {"n2": 5}})", "d.json:1:8: the topology has no node \"n9\""},
           {R"({"n0": {"n9": 5}})", "d.json:1:15: the topology has no node \"n9\""},
           {R"({"n0": 5})", "d.json:1:8: "},
           {R"({"n0": {"n2": -1}})", "d.json:1:15: "},
           {R"({"n0": {"n2": 1.5}})", "d.json:1:15: "},
           {R"({"n0": {"n2": 9007199254740991}})", "d.json:1:15: "},
           {R"({"n0": {"n0": 1}})", "d.json:1:15: "},
           {R"({"n0": {"n1": 1, "n1": 2}})", "d.json:1:18: "},
           {"{}", "no node has any demand"}}) {
    const Outcome outcome = run(demand);
    EXPECT_EQ(outcome.code, 2) << demand;
    EXPECT_THAT(outcome.errors, HasSubstr(what)) << demand;
  }
  EXPECT_EQ(run(R"({"n0": {"n2": 5}})", " --format program").code, 2);
  EXPECT_EQ(Run("schedule make bfb --topology " + net + " --demand " + Path("d.json")).code, 2);
}

TEST_F(ScheduleCommands, MakeReportsBadInput) {
  const std::string ring = Make("ring --nodes 4");
  const auto expect = [&](const std::string& arguments, int code, const std::string& what) {
    const Outcome outcome = Run("schedule " + arguments);
    EXPECT_EQ(outcome.code, code) << arguments;
    EXPECT_EQ(outcome.output, "") << arguments;
    EXPECT_THAT(outcome.errors, HasSubstr(what)) << arguments;
  };
  expect("make bfb --topology " + Path("none.json"), 2, "none.json");
  expect("make tree --topology " + ring, 2, "tree");
  expect("make bfb --topology " + ring + " --chunks 0", 2, "--chunks");
  expect("make ring --topology " + ring + " --chunks 2", 2, "only with bfb and alltoall");
  expect("make bfb --construction x --topology " + ring, 2, "--construction");
  expect("make construction --topology " + ring, 2, "--construction");
  expect("make construction --construction \"Ring(3)\" --topology " + ring, 2, "unknown name");
  expect("make bfb --chunks 1000000000 --format program --topology " + ring, 2, "too large");
  expect("verify --topology " + ring + " " + ring, 2, "\"collective\" is missing");
  const std::string fabric = Make("leaf-spine --spines 1 --leaves 1 --hosts-per-leaf 2");
  expect("make bfb --topology " + fabric, 2, "is a SWITCH");
  expect("make bfb --topology " + Make("torus --dims 2x2") + " --collective broadcast", 2,
         "broadcast");
  expect("make ring --topology " + Make("complete --nodes 4"), 2, "is not a ring");
}

TEST_F(ScheduleCommands, MakeReportsANetworkThatIsNotConnected) {
  const std::string text = R"({"name": "two", "version": 1,
    "nodes": [{"id": "a", "kind": "COMPUTE"}, {"id": "b", "kind": "COMPUTE"}],
    "links": [{"a": "a", "b": "b", "gbps": 1, "directed": true}]})";
  ASSERT_TRUE(io::WriteFileDurably(Path("two.json"), text).has_value());
  const Outcome made = Run("schedule make bfb --topology " + Path("two.json"));
  EXPECT_EQ(made.code, 2);
  EXPECT_THAT(made.errors, HasSubstr("node b cannot reach node a"));
}

TEST_F(ScheduleCommands, TopologyMakeBuildsEveryFamily) {
  const std::vector<std::tuple<std::string, std::size_t, std::size_t>> cases{
      {"complete --nodes 5", 5, 10},
      {"bipartite --degree 3", 6, 9},
      {"circulant --nodes 16 --offsets 3,4", 16, 32},
      {"circulant --nodes 16", 16, 32},
      {"directed-circulant --degree 3", 5, 15},
      {"generalized-kautz --degree 2 --nodes 9", 9, 18},
      {"de-bruijn --degree 2 --length 3", 8, 14},
      {"kautz --degree 2 --length 2", 12, 24},
      {"hamming --dimension 2 --size 3", 9, 18},
      {"distance-regular --nodes 35", 35, 70},
      {"direct \"Line(Bipartite(2), 2)\"", 16, 32},
  };
  for (const auto& [kind, nodes, links] : cases) {
    const auto topology = io::ReadTopologyFile(Make(kind + " --gbps 2.5"));
    ASSERT_TRUE(topology.has_value()) << kind << topology.error().message;
    EXPECT_EQ(topology->nodes().size(), nodes) << kind;
    // Two arcs in opposite directions are one link.
    EXPECT_LE(topology->links().size(), links) << kind;
    EXPECT_EQ(topology->links()[0].rate.value, 2'500'000'000) << kind;
  }
  EXPECT_EQ(Run("topology make circulant --nodes 16 --offsets 4").code, 2);
  EXPECT_EQ(Run("topology make kautz --degree 2").code, 2);
  EXPECT_EQ(Run("topology make complete --nodes 4 --gbps fast").code, 2);
  EXPECT_EQ(Run("topology make direct \"Line(DeBruijn(2, 2))\"").code, 2);
  EXPECT_THAT(Run("topology make complete --help").output, testing::Not(HasSubstr("leaf-spine")));
}

TEST_F(ScheduleCommands, FindPrintsTheFrontWithItsBounds) {
  const Outcome text = Run("topology find --nodes 32 --degree 4 --bytes 1048576");
  EXPECT_EQ(text.code, 0);
  EXPECT_THAT(text.output, HasSubstr("L(K_{4,4})"));
  EXPECT_THAT(text.output, HasSubstr("lower bounds"));
  const io::JsonValue front = Json(Run("topology find --nodes 32 --degree 4 --json").output);
  ASSERT_EQ(front.items.size(), 2U);
  EXPECT_EQ(front.items[0].Find("name")->text, "L(K_{4,4})");
  EXPECT_EQ(front.items[0].Find("construction")->text, "Line(Bipartite(4), 1)");
  EXPECT_EQ(front.items[0].Find("t_l")->text, "3");
  EXPECT_EQ(front.items[0].Find("t_b")->text, "1");
  EXPECT_EQ(front.items[1].Find("t_b")->text, "31/32");
  EXPECT_EQ(front.items[1].Find("moore_t_l")->text, "3");
  EXPECT_EQ(front.items[1].Find("least_t_b")->text, "31/32");
  const Outcome none = Run("topology find --nodes 5 --degree 3 --bidirectional");
  EXPECT_EQ(none.code, 2);
  EXPECT_THAT(none.errors, HasSubstr("no construction of 5 nodes of degree 3"));
  EXPECT_EQ(Run("topology find --nodes 1 --degree 3").code, 2);
}

// Every port is used once in each direction, and the cables are those of the network.
TEST_F(ScheduleCommands, FindListsCablesWithEveryPortOnce) {
  for (const std::string options :
       {"--nodes 12 --degree 4 --bidirectional", "--nodes 32 --degree 4"}) {
    ASSERT_EQ(Run("topology find " + options + " --cables " + Path("c.csv")).code, 0);
    std::istringstream text(*io::ReadFile(Path("c.csv")));
    std::string line;
    std::getline(text, line);
    EXPECT_EQ(line, "from,from_port,to,to_port,directions");
    std::set<std::pair<std::string, std::string>> sending;
    std::set<std::pair<std::string, std::string>> receiving;
    while (std::getline(text, line)) {
      std::istringstream cells(line);
      std::string from, from_port, to, to_port, directions;
      std::getline(cells, from, ',');
      std::getline(cells, from_port, ',');
      std::getline(cells, to, ',');
      std::getline(cells, to_port, ',');
      std::getline(cells, directions);
      EXPECT_LT(std::max(std::stoi(from_port), std::stoi(to_port)), 4);
      EXPECT_TRUE(sending.emplace(from, from_port).second);
      EXPECT_TRUE(receiving.emplace(to, to_port).second);
      if (directions == "1") continue;
      EXPECT_TRUE(receiving.emplace(from, from_port).second);
      EXPECT_TRUE(sending.emplace(to, to_port).second);
    }
    EXPECT_EQ(sending.size() % 4, 0U);
    EXPECT_EQ(sending, receiving);
  }
}

}  // namespace
}  // namespace espalier::synthesis
