#include "deploy/cli/probe/sweep.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "common/terminal/table.h"
#include "tests/deploy/cli/operator/operator_commands_fixture.h"

namespace espalier::cli {
namespace {

// A fabric of leaves with two hosts each.
struct Fabric {
  explicit Fabric(int leaves) {
    for (int leaf = 0; leaf < leaves; ++leaf) {
      const std::string name = "leaf" + std::to_string(leaf);
      nodes.push_back(MakeRow({{"id", name}, {"kind", "SWITCH"}, {"agent", ""}}));
      for (int i = 0; i < 2; ++i) {
        const std::string host = "h" + std::to_string(2 * leaf + i);
        nodes.push_back(MakeRow({{"id", host}, {"kind", "COMPUTE"}, {"agent", "connected"}}));
        links.push_back(MakeRow({{"id", host + "--" + name}, {"a", host}, {"b", name}}));
      }
      links.push_back(MakeRow({{"id", name + "--spine0"}, {"a", name}, {"b", "spine0"}}));
    }
    nodes.push_back(MakeRow({{"id", "spine0"}, {"kind", "SWITCH"}, {"agent", ""}}));
  }
  std::vector<io::JsonValue> nodes;
  std::vector<io::JsonValue> links;
};

TEST(Sweep, CoversEveryPairOfLeavesInBothDirections) {
  const Fabric fabric(4);
  const auto pairs = ChoosePairs(fabric.nodes, fabric.links, "", "", 1'000);
  std::set<std::pair<std::string, std::string>> seen;
  for (const LeafPair& pair : pairs) seen.emplace(pair.leaf, pair.destination_leaf);
  EXPECT_EQ(pairs.size(), 12U);
  EXPECT_EQ(seen.size(), 12U);
}

TEST(Sweep, LetsEveryLeafSendBeforeOneDoesSoTwice) {
  const Fabric fabric(8);
  std::set<std::string> senders;
  std::set<std::string> receivers;
  for (const LeafPair& pair : ChoosePairs(fabric.nodes, fabric.links, "", "", 8)) {
    senders.insert(pair.leaf);
    receivers.insert(pair.destination_leaf);
  }
  EXPECT_EQ(senders.size(), 8U);
  EXPECT_EQ(receivers.size(), 8U);
}

TEST(Sweep, KeepsToTwoLeaves) {
  const Fabric fabric(4);
  const auto pairs = ChoosePairs(fabric.nodes, fabric.links, "leaf1", "leaf3", 1'000);
  ASSERT_EQ(pairs.size(), 2U);
  EXPECT_NE(pairs[0].leaf, pairs[1].leaf);
  EXPECT_TRUE(ChoosePairs(fabric.nodes, fabric.links, "leaf1", "spine0", 1'000).empty());
}

TEST(Sweep, LeavesOutHostsWithoutAnAgent) {
  Fabric fabric(2);
  for (io::JsonValue& node : fabric.nodes) {
    if (RawText(node, "id") == "h0") node = MakeRow({{"id", "h0"}, {"agent", "missing"}});
  }
  for (const LeafPair& pair : ChoosePairs(fabric.nodes, fabric.links, "", "", 10)) {
    EXPECT_NE(pair.source, "h0");
    EXPECT_NE(pair.destination, "h0");
  }
}

using SweepTest = OperatorCommandsTest;

TEST_F(SweepTest, ProbesTheFabricOfAController) {
  const Outcome all = Run({"probe", "--sweep", "--ports", "4"});
  EXPECT_EQ(all.exit_code, 0) << all.err;
  EXPECT_NE(all.out.find("2 pairs of leaves probed with 8 source ports\n"), std::string::npos)
      << all.out;
  EXPECT_NE(all.out.find("came to the end of its path"), std::string::npos) << all.out;
  const Outcome one = Run({"probe", "--sweep", "leaf0", "leaf1", "--pairs", "1", "--json"});
  EXPECT_EQ(one.exit_code, 0) << one.err;
  EXPECT_NE(one.err.find("probes 1 of 2 pairs"), std::string::npos) << one.err;
  EXPECT_EQ(io::ParseJson(one.out, "sweep")->Find("pairs")->text, "1");
}

TEST_F(SweepTest, RefusesWhatItCannotProbe) {
  const Outcome unknown = Run({"probe", "--sweep", "leaf0", "leaf9"});
  EXPECT_EQ(unknown.exit_code, 1);
  EXPECT_NE(unknown.err.find("leaf0, leaf1"), std::string::npos) << unknown.err;
  EXPECT_EQ(Run({"probe", "--sweep", "leaf0"}).exit_code, 2);
  EXPECT_EQ(Run({"probe"}).exit_code, 2);
  EXPECT_EQ(Run({"probe", "h0"}).exit_code, 2);
  EXPECT_EQ(Run({"probe", "--sweep", "--port", "5"}).exit_code, 2);
  EXPECT_EQ(Run({"probe", "h0", "h2", "--pairs", "5"}).exit_code, 2);
}

TEST_F(SweepTest, AProbeEndsWithASummary) {
  const Outcome probe = Run({"probe", "h0", "h2", "--ports", "4"});
  EXPECT_NE(probe.out.find("\n\nspine"), std::string::npos) << probe.out;
  EXPECT_NE(probe.out.find(" answered\n"), std::string::npos) << probe.out;
  const auto json = io::ParseJson(Run({"probe", "h0", "h2", "--json"}).out, "probe");
  ASSERT_TRUE(json.has_value());
  EXPECT_FALSE(json->Find("summary")->items.empty());
  EXPECT_EQ(json->Find("ports")->items.size(), 8U);
}

}  // namespace
}  // namespace espalier::cli
