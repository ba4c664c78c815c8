#include "controller/offline/files/floodns_topology.h"

#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <utility>

namespace espalier::offline {
namespace {

using fabric::SwitchRole;

// ToRs 0 and 1, switches 2 and 3 above them, 4 above all; three servers. The parser must skip the
// blanks, the comment and the line ends.
const std::string kGood =
    "# a comment\n\n num_nodes = 8\r\nnum_undirected_edges=9\nswitches=incl_range(0,4)\n"
    "switches_which_are_tors=set( 0, 1 )\nservers=set(5,6:7)\n"
    "undirected_edges=set(2:3-4,0:1 - 2:3,5-0,6:7-1)\nlink_data_rate_bit_per_ns=2.5";

std::string Replace(const std::string& from, const std::string& to) {
  std::string text = kGood;
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

// (topology_commands_test covers the names of links and most errors.)
TEST(FloodnsTopology, NamesNodesByTheirPlaceAndKeepsTheOrderOfNumbers) {
  const auto spec = ParseFloodnsTopology(kGood, "t");
  ASSERT_TRUE(spec.has_value()) << spec.error().message;
  EXPECT_EQ(spec->name, "floodns");
  std::string nodes;
  for (const fabric::Node& node : spec->nodes) {
    nodes += node.id + " ";
    EXPECT_EQ(node.host, node.kind == fabric::NodeKind::kCompute ? node.id : "");
  }
  EXPECT_EQ(nodes, "h0 h1 h2 tor0 tor1 spine0 spine1 core0 ");
  EXPECT_EQ(spec->nodes[4].role, SwitchRole::kLeaf);
  EXPECT_EQ(spec->nodes[6].role, SwitchRole::kSpine);
  EXPECT_EQ(spec->nodes[7].role, SwitchRole::kCore);
  EXPECT_EQ(spec->links.size(), 9U);
}

TEST(FloodnsTopology, TakesTheCoresThatAFileNames) {
  EXPECT_TRUE(ParseFloodnsTopology(kGood + "\ncores=set(4)\n", "t").has_value());
  EXPECT_TRUE(ParseFloodnsTopology(kGood + "\ncores=set()\n", "t").has_value());
  // A switch without a link to a ToR is a core, although no line says so.
  const auto alone = ParseFloodnsTopology(
      "num_nodes=1\nnum_undirected_edges=0\nswitches=set(0)\nservers=set()\n"
      "undirected_edges=set()\nswitches_which_are_tors=set()\n"
      "link_data_rate_bit_per_ns=1\n",
      "t");
  ASSERT_TRUE(alone.has_value()) << alone.error().message;
  EXPECT_EQ(alone->nodes.at(0).id, "core0");
}

TEST(FloodnsTopology, NamesThePlaceOfEveryError) {
  const std::pair<std::string, std::string> cases[] = {
      {kGood + "\ncores=set(1)\n", "10:7: node 1 is not a switch, or is listed twice"},
      {kGood + "\ncores=set(5)\n", "10:7: node 5 is not a switch"},
      {Replace("set( 0, 1 )", "set(0,1,0)"), "6:25: node 0 is not a switch"},
      {Replace("incl_range(0,4)", "incl_range(0)"), "5:10: incl_range takes the first and"},
      {Replace("incl_range(0,4)", "incl_range(0,2,4)"), "5:10: incl_range takes the first and"},
      {Replace("incl_range(0,4)", "set(0:4"), "5:10: switches must be set(...) or incl_range"},
      {Replace("incl_range(0,4)", "set(4:0)"), "5:14: the range ends before it begins"},
      {Replace("incl_range(0,4)", "set(0:4,)"), ""},
      {Replace("5-0,", "5:5-0,"), ""},
      {Replace("incl_range(0,4)", "set(0:4,,)"), "5:18: \"\" is not a whole number from 0 to 7"},
      {Replace("set(5,6:7)", "set(5,-6)"), "7:15: \"-6\" is not a whole number from 0 to 7"},
      {Replace("num_nodes = 8", "num_nodes=262145"),
       "3:12: \"262145\" is not a whole number from 0 to 262144"},
      {Replace("edges=9", "edges=1048577"),
       "4:22: \"1048577\" is not a whole number from 0 to 1048576"},
      {Replace("5-0,", "5-0,0-5,"), "8:42: edge 5-0 is listed twice"},
      {Replace("5-0,", "5-0,4-4,"), "8:42: node 4 is connected to itself"},
      {Replace("servers=set(5,6:7)\n", ""), "1:1: the line \"servers=...\" is missing"},
      {Replace("bit_per_ns=2.5", "bit_per_ns="), "9:27: "},
      {Replace("bit_per_ns=2.5", "bit_per_ns=-1"), "9:27: "},
      {std::string(41, 'k') + "=1\n", "1:1: unknown key \"" + std::string(40, 'k') + "\" (remove"},
      {"", "1:1: the line \"num_nodes=...\" is missing"},
  };
  for (const auto& [text, expected] : cases) {
    const auto spec = ParseFloodnsTopology(text, "t");
    ASSERT_EQ(spec.has_value(), expected.empty()) << text;
    if (spec) continue;
    EXPECT_EQ(spec.error().code, ErrorCode::kInvalidArgument);
    EXPECT_TRUE(spec.error().message.starts_with("t:" + expected))
        << spec.error().message << "  instead of " << expected;
  }
}

}  // namespace
}  // namespace espalier::offline
