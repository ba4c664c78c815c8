#include "deploy/cli/planning/assign_commands.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "common/fabric/builders.h"
#include "common/files/file.h"
#include "common/files/json.h"
#include "common/files/topology_file.h"
#include "tests/deploy/cli/run_command.h"
#include "tests/temporary_folder.h"

namespace espalier::cli {
namespace {

using fabric::LinkState;

class Assign : public testing::Test {
 protected:
  // 2 spines, 3 leaves with 2 hosts each: h0 h1 | h2 h3 | h4 h5.
  Assign() {
    auto spec = *fabric::BuildLeafSpine({.spines = 2, .leaves = 3, .hosts_per_leaf = 2});
    WriteTopology(spec);
  }

  std::string Path(const std::string& name) const { return temporary_.path() + "/" + name; }
  std::string Write(const std::string& name, const std::string& text) const {
    EXPECT_TRUE(io::WriteFileDurably(Path(name), text).has_value());
    return Path(name);
  }
  void WriteTopology(const fabric::TopologySpec& spec) {
    Write("fabric.json", io::FormatTopology(spec));
  }
  // The fabric with links, named by the parts of their ids, in another state.
  void SetLinks(const std::vector<std::string>& parts, LinkState state) {
    auto spec = io::ReadTopologyFile(Path("fabric.json"))->Spec();
    for (fabric::Link& link : spec.links) {
      for (const std::string& part : parts) {
        if (link.id.find(part) != std::string::npos) link.state = state;
      }
    }
    WriteTopology(spec);
  }

  Outcome Run(const std::string& flows, const std::string& options = "") const {
    Write("flows.csv", flows);
    return RunCommand(AddAssignCommand, "assign --topology " + Path("fabric.json") + " --flows " +
                                            Path("flows.csv") + " " + options);
  }
  io::JsonValue RunJson(const std::string& flows, const std::string& options = "") const {
    const Outcome outcome = Run(flows, "--json " + options);
    EXPECT_EQ(outcome.code, 0) << outcome.errors;
    auto json = io::ParseJson(outcome.output, "output");
    EXPECT_TRUE(json.has_value()) << json.error().message;
    return *json;
  }
  // The error of a file that is refused, without the name of the file.
  std::string ErrorOf(const std::string& flows) const {
    const Outcome outcome = Run(flows);
    EXPECT_EQ(outcome.code, 2) << flows;
    EXPECT_EQ(outcome.output, "");
    const std::string start = "espalier: " + Path("flows.csv") + ":";
    EXPECT_TRUE(outcome.errors.starts_with(start)) << outcome.errors;
    return outcome.errors.substr(std::min(start.size(), outcome.errors.size()));
  }

  TemporaryFolder temporary_;
};

std::string TextOf(const io::JsonValue& object, const std::string& key) {
  const io::JsonValue* value = object.Find(key);
  EXPECT_NE(value, nullptr) << key;
  return value == nullptr ? "" : value->text;
}

// "ROUTED spine0:1/2 spine1:1/2" by flow.
std::map<std::string, std::string> FlowsOf(const io::JsonValue& plan) {
  std::map<std::string, std::string> flows;
  for (const io::JsonValue& flow : plan.Find("assignments")->items) {
    std::string text = TextOf(flow, "state");
    for (const io::JsonValue& path : flow.Find("paths")->items) {
      text += " ";
      for (const io::JsonValue& node : path.Find("via")->items) text += node.text + ":";
      text += TextOf(path, "share");
    }
    flows[TextOf(flow, "flow")] = text;
  }
  return flows;
}

const std::string kHeader = "flow,job,src,dst,bytes\n";
const std::string kFourFlows =
    kHeader + "a,j0,h0,h2,100\nb,j0,h1,h4,\nc,j1,h2,h3,5\nd,j1,h4,h0,7\n";

TEST_F(Assign, PrintsAnAssignmentWithEveryField) {
  const io::JsonValue plan = RunJson(kFourFlows);
  const std::pair<const char*, const char*> expected[] = {
      {"algorithm", "optimal"}, {"flows", "4"},
      {"routed", "3"},          {"local", "1"},
      {"unroutable", "0"},      {"max_link_load", "1"},
      {"lower_bound", "1"},     {"moved", "0"},
      {"moved_bytes", "0"},     {"proof", "a two-tier Clos with equal links"}};
  for (const auto& [key, value] : expected) EXPECT_EQ(TextOf(plan, key), value) << key;
  EXPECT_GT(std::stod(TextOf(plan, "microseconds")), 0);
  EXPECT_EQ(TextOf(*plan.Find("job_min_share_gbps"), "j0"), "100");
  EXPECT_EQ(TextOf(*plan.Find("job_min_share_gbps"), "j1"), "100");

  auto flows = FlowsOf(plan);
  EXPECT_EQ(flows["c"], "LOCAL");
  EXPECT_NE(flows["a"], flows["b"]);  // both leave leaf0
  std::vector<std::string> links;
  for (const auto& link :
       plan.Find("assignments")->items[0].Find("paths")->items[0].Find("links")->items) {
    links.push_back(link.text);
  }
  const std::string spine = flows["a"].substr(7, 6);
  EXPECT_EQ(links, (std::vector<std::string>{"h0--leaf0", "leaf0--" + spine, "leaf1--" + spine,
                                             "h2--leaf1"}));
}

TEST_F(Assign, PrintsATable) {
  const Outcome outcome = Run(kFourFlows);
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.errors, "");
  EXPECT_NE(outcome.output.find("c     LOCAL       -\n"), std::string::npos) << outcome.output;
  EXPECT_NE(outcome.output.find("optimal: 4 flows (3 routed, 1 local, 0 unroutable), 0 moved"),
            std::string::npos);
  EXPECT_NE(outcome.output.find("most loaded link: 1 (optimal)"), std::string::npos);
}

TEST_F(Assign, RunsEveryAlgorithm) {
  for (const char* algorithm : {"optimal", "greedy", "annealing", "ilp", "ecmp"}) {
    const io::JsonValue plan = RunJson(kFourFlows, std::string("--algorithm ") + algorithm);
    EXPECT_EQ(TextOf(plan, "algorithm"), algorithm);
    EXPECT_EQ(TextOf(plan, "routed"), "3");
    if (std::string(algorithm) != "ecmp") {
      EXPECT_EQ(TextOf(plan, "max_link_load"), "1") << algorithm;
    }
  }
}

TEST_F(Assign, KeepsAFlowsHashedPathWhateverElseIsInTheFile) {
  std::set<std::string> vias;
  for (int seed = 0; seed < 10; ++seed) {
    const std::string options = "--algorithm ecmp --seed " + std::to_string(seed);
    auto all = FlowsOf(RunJson(kFourFlows, options));
    auto one = FlowsOf(RunJson(kHeader + "d,j1,h4,h0,7\n", options));
    EXPECT_EQ(all["d"], one["d"]) << seed;
    vias.insert(one["d"]);
  }
  EXPECT_EQ(vias.size(), 2U);  // but not the same for all seeds
}

TEST_F(Assign, SplitsFlows) {
  const std::string three = kHeader + "a,j,h0,h2,\nb,j,h1,h3,\nc,j,h0,h4,\n";
  EXPECT_EQ(TextOf(RunJson(three), "max_link_load"), "2");
  const io::JsonValue plan = RunJson(three, "--split 4");
  EXPECT_EQ(TextOf(plan, "max_link_load"), "3/2");
  EXPECT_EQ(FlowsOf(plan)["a"], "ROUTED spine0:1/2 spine1:1/2");
}

TEST_F(Assign, ReportsWhatHasNoPathAndAssignsTheRest) {
  SetLinks({"leaf2--spine"}, LinkState::kDown);
  SetLinks({"h3--"}, LinkState::kDrained);
  const std::string flows = kHeader + "a,j0,h0,h2,\nb,j0,h1,h4,\nc,j1,h2,h3,\nd,j2,h4,h5,\n";
  const Outcome outcome = Run(flows, "--json");
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.errors,
            "espalier: 2 of 4 flows have no usable path (UNROUTABLE: look for links that are DOWN "
            "or DRAINED)\n");
  const auto plan = *io::ParseJson(outcome.output, "output");
  auto states = FlowsOf(plan);
  EXPECT_TRUE(states["a"].starts_with("ROUTED")) << states["a"];
  EXPECT_EQ(states["b"], "UNROUTABLE");
  EXPECT_EQ(states["c"], "UNROUTABLE");  // the link of its host is not usable
  EXPECT_EQ(states["d"], "LOCAL");
  EXPECT_EQ(TextOf(*plan.Find("job_min_share_gbps"), "j0"), "0");
  EXPECT_EQ(TextOf(*plan.Find("job_min_share_gbps"), "j2"), "100");
}

TEST_F(Assign, WorksWithoutSpines) {
  WriteTopology(*fabric::BuildRails({.boxes = 2, .rails = 2, .spines = 0}));
  const auto plan = RunJson(kHeader + "a,j,box0/nic0,box1/nic0,\nb,j,box0/nic0,box1/nic1,\n");
  auto states = FlowsOf(plan);
  EXPECT_EQ(states["a"], "LOCAL");
  EXPECT_EQ(states["b"], "UNROUTABLE");
  EXPECT_EQ(TextOf(plan, "max_link_load"), "0");
}

TEST_F(Assign, SaysThatThereIsNothingToDo) {
  const Outcome outcome = Run(kHeader, "--json");
  EXPECT_EQ(outcome.code, 0);
  EXPECT_NE(outcome.errors.find("nothing to do"), std::string::npos);
  const auto plan = *io::ParseJson(outcome.output, "output");
  EXPECT_EQ(TextOf(plan, "flows"), "0");
  EXPECT_EQ(TextOf(plan, "max_link_load"), "0");
}

// Two flows from every host of a fabric of 4 spines; then a spine goes, flows come and go.
TEST_F(Assign, MovesOnlyWhatMustMove) {
  WriteTopology(*fabric::BuildLeafSpine({.spines = 4, .leaves = 4, .hosts_per_leaf = 4}));
  const auto flows_from = [](int first) {
    std::string text = kHeader;
    for (int i = first; i < 28; ++i) {
      text += fmt::format("f{},j,h{},h{},1000\n", i, i % 16, (i + 4 * (1 + i / 16) + i % 3) % 16);
    }
    return text;
  };
  const io::JsonValue before = RunJson(flows_from(4));
  const std::string previous =
      "--previous " + Write("plan.json", Run(flows_from(4), "--json").output);
  auto old_paths = FlowsOf(before);
  const std::string same = TextOf(RunJson(flows_from(4), previous), "moved");
  EXPECT_EQ(same, "0");

  SetLinks({"--spine1"}, LinkState::kDrained);
  const io::JsonValue repaired = RunJson(flows_from(0), previous);
  int moved = 0;
  for (const auto& [flow, text] : FlowsOf(repaired)) {
    EXPECT_EQ(text.find("spine1"), std::string::npos);
    if (!old_paths.contains(flow)) continue;
    const bool was_on_it = old_paths[flow].find("spine1") != std::string::npos;
    EXPECT_EQ(text != old_paths[flow], was_on_it) << flow;
    moved += was_on_it ? 1 : 0;
  }
  EXPECT_GT(moved, 0);
  EXPECT_EQ(TextOf(repaired, "moved"), std::to_string(moved));
  EXPECT_EQ(TextOf(repaired, "moved_bytes"), std::to_string(1000 * moved));
  EXPECT_EQ(TextOf(repaired, "routed"), TextOf(RunJson(flows_from(0)), "routed"));
}

TEST_F(Assign, SpendsItsMoveBudgetOnTheOptimum) {
  WriteTopology(*fabric::BuildLeafSpine({.spines = 8, .leaves = 6, .hosts_per_leaf = 8}));
  std::string flows = kHeader;
  for (int i = 0; i < 48; ++i) flows += fmt::format("f{},j,h{},h{},\n", i, i, (i + 8 + i % 5) % 48);
  const std::string previous =
      "--previous " + Write("plan.json", Run(flows, "--algorithm ecmp --json").output);
  const std::string bound = TextOf(RunJson(flows), "max_link_load");
  double last = 100;
  for (const int budget : {0, 1, 5, 1000}) {
    const io::JsonValue plan =
        RunJson(flows, previous + " --move-budget " + std::to_string(budget));
    EXPECT_LE(std::stoi(TextOf(plan, "moved")), budget);
    const double load = std::stod(TextOf(plan, "max_link_load"));
    EXPECT_LE(load, last);
    last = load;
    if (budget == 1000) {
      EXPECT_EQ(TextOf(plan, "max_link_load"), bound);
    }
  }
}

// Two flows share a link; moving either would do.
TEST_F(Assign, MovesTheFlowWithFewerBytesAndNoMoreThanAllowed) {
  WriteTopology(*fabric::BuildLeafSpine({.spines = 2, .leaves = 2, .hosts_per_leaf = 2}));
  const std::string flows = kHeader + "big,j,h0,h2,1000\nsmall,j,h1,h3,10\n";
  const std::string path =
      R"("links": ["h{0}--leaf0", "leaf0--spine0", "leaf1--spine0", "h{1}--leaf1"], "share": "1")";
  const auto entry = [&](const char* name, int from, int to) {
    return fmt::format(R"({{"flow": "{}", "state": "ROUTED", "paths": [{{{}}}]}})", name,
                       fmt::format(fmt::runtime(path), from, to));
  };
  const std::string previous =
      "--previous " +
      Write("plan.json", R"({"algorithm": "greedy", "assignments": [)" + entry("big", 0, 2) + ", " +
                             entry("small", 1, 3) + "]}");
  const auto run = [&](const std::string& options) {
    const io::JsonValue plan = RunJson(flows, previous + options);
    return TextOf(plan, "max_link_load") + " " + TextOf(plan, "moved_bytes");
  };
  EXPECT_EQ(run(" --move-budget 5"), "1 10");
  EXPECT_EQ(run(" --move-budget 5 --move-bytes 10"), "1 10");
  EXPECT_EQ(run(" --move-budget 5 --move-bytes 9"), "2 0");
  EXPECT_EQ(Run(flows, previous + " --move-bytes -1").code, 2);
}

TEST_F(Assign, KeepsTheSubflowsWithAUsablePath) {
  WriteTopology(*fabric::BuildLeafSpine({.spines = 4, .leaves = 2, .hosts_per_leaf = 1}));
  const std::string flows = kHeader + "a,j,h0,h1,\n";
  const std::string previous =
      "--split 2 --previous " + Write("plan.json", Run(flows, "--split 2 --json").output);
  const std::string before = FlowsOf(RunJson(flows, previous))["a"];
  const std::string lost = before.substr(7, 6);  // "ROUTED spine0:1/2 spine1:1/2"
  const std::string kept = before.substr(18);
  SetLinks({"leaf1--" + lost}, LinkState::kDown);
  const std::string after = FlowsOf(RunJson(flows, previous))["a"];
  EXPECT_NE(after.find(kept), std::string::npos) << after;
  EXPECT_EQ(after.find(lost), std::string::npos) << after;
}

TEST_F(Assign, RefusesAFileThatIsNoAssignment) {
  const std::pair<std::string, std::string> cases[] = {
      {"{\"algorithm\": \"optimal\"}", "1:1: field \"assignments\" is missing"},
      {"{\"algorithm\": \"optimal\", \"assignments\": [], \"age\": 1}",
       "1:45: unknown field \"age\""},
      {R"({"algorithm": "optimal", "assignments": [{"flow": "a", "state": "LOST"}]})",
       "1:65: must be ROUTED"},
      {R"({"algorithm": "optimal", "assignments": [{"flow": "a", "state": "LOCAL"},
{"flow": "a", "state": "LOCAL"}]})",
       "2:10: the flow occurs twice in the file"},
      {R"({"algorithm": "optimal", "assignments": [{"flow": "a", "state": "ROUTED",
"paths": [{"links": ["x"], "share": "2/1"}]}]})",
       "2:37: must be a part of a flow"},
      {R"({"algorithm": "optimal", "assignments": [{"flow": "a", "state": "ROUTED",
"paths": [{"links": [1], "share": "1"}]}]})",
       "2:21: must be ids"},
  };
  for (const auto& [text, expected] : cases) {
    const std::string file = Write("plan.json", text);
    const Outcome outcome = Run(kFourFlows, "--previous " + file);
    EXPECT_EQ(outcome.code, 2);
    EXPECT_TRUE(outcome.errors.starts_with("espalier: " + file + ":" + expected))
        << outcome.errors << " instead of " << expected;
  }
  // An assignment of another fabric: no path can be kept, and every routed flow has moved.
  const std::string other =
      Write("plan.json",
            R"({"algorithm": "ilp", "assignments": [{"flow": "a", "state": "ROUTED",
          "paths": [{"links": ["h0--leaf9", "leaf9--spine9", "leaf1--spine9", "h2--leaf1"],
                     "share": "1"}]}]})");
  EXPECT_EQ(TextOf(RunJson(kFourFlows, "--previous " + other), "moved"), "1");
  EXPECT_EQ(Run(kFourFlows, "--previous " + Path("none.json")).code, 2);
  EXPECT_EQ(Run(kFourFlows, "--algorithm greedy --previous " + other).code, 2);
  EXPECT_EQ(Run(kFourFlows, "--move-budget 3").code, 2);
}

// Two halves of each flow take both uplinks, and what only a host decides is refused.
TEST_F(Assign, BalancesTheUplinksOfNics) {
  auto spec =
      *fabric::BuildLeafSpine({.spines = 4, .leaves = 4, .hosts_per_leaf = 2, .uplinks = 2});
  WriteTopology(spec);
  const std::string flows = kHeader + "a,j,h0,h2,\nb,j,h1,h3,\nc,j,h2,h0,\n";
  const io::JsonValue json = RunJson(flows, "--split 2");
  EXPECT_EQ(json.Find("max_link_load")->text, "1/2");
  EXPECT_EQ(json.Find("lower_bound")->text, "1/2");
  for (const io::JsonValue& flow : json.Find("assignments")->items) {
    std::set<std::string> first;
    for (const io::JsonValue& path : flow.Find("paths")->items) {
      const auto& links = path.Find("links")->items;
      ASSERT_EQ(links.size(), 4U);
      EXPECT_EQ(path.Find("via")->items.size(), 3U) << "leaf, spine, leaf";
      first.insert(links.front().text);
    }
    EXPECT_EQ(first.size(), 2U);
  }
  const Outcome text = Run(flows);
  EXPECT_NE(text.output.find("why it is optimal: a two-tier Clos of equal bundles"),
            std::string::npos)
      << text.output;
  // An assignment that is given again moves nothing.
  Write("before.json", Run(flows, "--json").output);
  EXPECT_EQ(RunJson(flows, "--previous " + Path("before.json")).Find("moved")->text, "0");
  for (fabric::Node& node : spec.nodes) {
    if (node.id == "h2") node.uplink = fabric::UplinkChoice::kFixed;
  }
  WriteTopology(spec);
  EXPECT_NE(ErrorOf(flows).find("h2 has several uplinks, among which nothing can choose"),
            std::string::npos);
}

TEST_F(Assign, ReadsWhatSpreadsheetsWrite) {
  auto states =
      FlowsOf(RunJson("\xEF\xBB\xBF\"flow\",job,src,dst,bytes\r\n\"a, "
                      "\"\"first\"\"\",j,\"h0\",h2,12\r\n\r\nb,j,h0,h1,"));
  EXPECT_TRUE(states["a, \"first\""].starts_with("ROUTED"));
  EXPECT_EQ(states["b"], "LOCAL");
}

TEST_F(Assign, NamesThePlaceOfEveryError) {
  const std::pair<std::string, std::string> cases[] = {
      {"", "1:1: the file is empty"},
      {"\n\n", "1:1: the file is empty"},
      {"a,j,h0,h2,\n", "1:1: the first line is not the header (it must be flow,job,src,dst,bytes"},
      {"flow,job,src,bytes,dst\n", "1:14: the first line is not the header"},
      {"flow,job,src,dst\n", "1:14: the first line is not the header"},
      {kHeader + "a,j,h0,h2\n", "2:8: the line has 4 fields"},
      {kHeader + "a,j,h0,h2,1,2\n", "2:11: the line has 6 fields"},
      {kHeader + ",j,h0,h2,\n", "2:1: the flow is empty"},
      {kHeader + "a,,h0,h2,\n", "2:3: the job is empty"},
      {kHeader + "a,j,h0,h9,\n", "2:8: no node of the topology has the id \"h9\""},
      {kHeader + "a,j,leaf0,h1,\n", "2:5: leaf0 is not a NIC on a switch"},
      {kHeader + "a,j,h0,h0,\n", "2:8: source and destination are the same node"},
      {kHeader + "a,j,h0,h2,\n\nb,j,h0,h1,\na,j,h1,h2,\n", "5:1: flow \"a\" is also on line 2"},
      {kHeader + "a,j,h0,h2,-1\n", "2:11: bytes is \"-1\""},
      {kHeader + "a,j,h0,h2,1e9\n", "2:11: bytes is \"1e9\""},
      {kHeader + "a,j,\"h0,h2,\n", "2:5: a quote is not closed on its line"},
      {kHeader + "a,j,\"h0\"x,h2,\n", "2:9: a comma must follow the closing quote"},
      {kHeader + "a\tb,j,h0,h2,\n", "2:1: a field has a control character"},
      {kHeader + std::string(300, 'a') + ",j,h0,h2,\n", "2:1: a field has more than 255 bytes"},
  };
  for (const auto& [flows, expected] : cases) {
    const std::string error = ErrorOf(flows);
    EXPECT_TRUE(error.starts_with(expected)) << error;
  }
}

TEST_F(Assign, RefusesMoreFlowsThanItTakesAndNamesTheLimit) {
  std::string flows = kHeader;
  for (int i = 0; i <= 1'000'000; ++i) flows += std::to_string(i) + ",j,h0,h2,\n";
  const std::string error = ErrorOf(flows);
  EXPECT_TRUE(error.starts_with("1000002:1: more than 1000000 flows")) << error;
}

TEST_F(Assign, TellsBadUsageFromBadInput) {
  const std::string topology = " --topology " + Path("fabric.json");
  const std::string flows = " --flows " + Write("good.csv", kFourFlows);
  for (const std::string& arguments :
       {std::string("assign"), std::string("assign --split 2"), "assign" + topology,
        "assign" + flows, "assign" + topology + flows + " --split 0",
        "assign" + topology + flows + " --split 17",
        "assign" + topology + flows + " --split 2 --shares thirds",
        "assign" + topology + flows + " --shares exact",
        "assign" + topology + flows + " --split 2 --shares exact --algorithm greedy",
        "assign" + topology + flows + " --algorithm best",
        "assign" + topology + flows + " --algorithm ideal",
        "assign" + topology + " --flows " + Path("none.csv"),
        "assign --topology " + Path("none.json") + flows,
        "assign --topology " + Path("good.csv") + flows}) {
    const Outcome outcome = RunCommand(AddAssignCommand, arguments);
    EXPECT_EQ(outcome.code, 2) << arguments;
    EXPECT_EQ(outcome.output, "") << arguments;
    EXPECT_NE(outcome.errors, "") << arguments;
  }
  const Outcome help = RunCommand(AddAssignCommand, "assign --help");
  EXPECT_EQ(help.code, 0);
  EXPECT_NE(help.output.find("flow,job,src,dst,bytes"), std::string::npos);
}

}  // namespace
}  // namespace espalier::cli
