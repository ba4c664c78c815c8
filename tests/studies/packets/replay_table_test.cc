#include "tests/studies/packets/replay_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "controller/offline/files/replay_files.h"
#include "tests/studies/packets/two_leaves.h"

namespace espalier::offline {
namespace {

const std::string kTop = "flow,job,source,destination,start_seconds,bytes,path,links\n";
const std::string kUp = "h0--leaf0>leaf0/leaf0--spine0>spine0/leaf1--spine0>leaf1/h2--leaf1>h2";

// What the parser says of these rows; "" if it takes them.
std::string TableErrorOf(const std::string& rows, const fabric::Topology& topology = TwoLeaves()) {
  const auto table = ParseReplayTable(rows, "t.csv", topology);
  return table ? "" : table.error().message;
}

TEST(ReplayTable, ReadsWhatTheExportWrites) {
  const fabric::Topology topology = TwoLeaves();
  const auto node = [&](const char* id) { return *topology.FindNode(id); };
  const std::vector<ReplayFlow> flows = {
      {.id = "split",
       .job = "J",
       .source = node("h0"),
       .destination = node("h2"),
       .start_ns = 1'000'000'007,
       .bytes = 1'000'003,
       .paths = {{.from_ns = 1'000'000'007,
                  .links = LinksThrough(topology, {"h0", "leaf0", "spine0", "leaf1", "h2"}),
                  .weight = 3},
                 {.from_ns = 1'000'000'007,
                  .links = LinksThrough(topology, {"h0", "leaf0", "spine1", "leaf1", "h2"})}}},
      {.id = "local", .job = "K", .source = node("h3"), .destination = node("h2"), .bytes = 9}};
  const auto table = ParseReplayTable(FormatNs3(flows, topology), "t.csv", topology);
  ASSERT_TRUE(table.has_value()) << table.error().message;
  ASSERT_EQ(table->size(), 2U);
  const TableFlow& split = table->front();
  EXPECT_EQ(split.id, "split");
  EXPECT_EQ(split.job, "J");
  EXPECT_EQ(split.source, node("h0"));
  EXPECT_EQ(split.destination, node("h2"));
  EXPECT_EQ(split.start_ns, 1'000'000'007);
  EXPECT_EQ(split.Bytes(), 1'000'003);
  ASSERT_EQ(split.parts.size(), 2U);
  EXPECT_EQ(split.parts[0].bytes, 750'002);
  EXPECT_EQ(split.parts[0].links, flows[0].paths[0].links);
  EXPECT_EQ(split.parts[1].links, flows[0].paths[1].links);
  ASSERT_EQ(table->back().parts.size(), 1U);
  EXPECT_EQ(table->back().parts[0].links, LinksThrough(topology, {"h3", "leaf1", "h2"}));
}

TEST(ReplayTable, ReadsNamesWithSlashes) {
  fabric::TopologySpec spec;
  spec.nodes = {{.id = "a/nic0", .kind = fabric::NodeKind::kNic, .host = "a"},
                {.id = "s", .kind = fabric::NodeKind::kSwitch},
                {.id = "s/2", .kind = fabric::NodeKind::kSwitch},
                {.id = "b/nic0", .kind = fabric::NodeKind::kNic, .host = "b"}};
  const auto link = [](int a, int b) {
    return fabric::Link{.a = fabric::NodeId(a), .b = fabric::NodeId(b), .rate = {1'000'000}};
  };
  spec.links = {link(0, 1), link(0, 2), link(1, 3), link(2, 3)};
  const auto topology = *fabric::Topology::Build(std::move(spec));
  const auto table = ParseReplayTable(
      kTop + "f,J,a/nic0,b/nic0,0,5,0,a/nic0--s/2>s/2/s/2--b/nic0>b/nic0\n", "t.csv", topology);
  ASSERT_TRUE(table.has_value()) << table.error().message;
  EXPECT_EQ(table->front().parts[0].links, LinksThrough(topology, {"a/nic0", "s/2", "b/nic0"}));
}

TEST(ReplayTable, RefusesOtherHeadersAndRows) {
  EXPECT_THAT(TableErrorOf(""), testing::StartsWith("t.csv:1:1: the first line is not the header"));
  EXPECT_NE(TableErrorOf("flow,job\n"), "");
  EXPECT_EQ(TableErrorOf(kTop), "");
  EXPECT_EQ(TableErrorOf(kTop + "f,J,h0,h2,0,5,0," + kUp + "\n"), "");
  const std::pair<const char*, const char*> rows[] = {
      {"f,J,h0,h2,0,5,0", "the line has 7 fields"},
      {"f,J,h9,h2,0,5,0,", "no node of the topology has the id \"h9\""},
      {"f,J,h0,h9,0,5,0,", "no node of the topology has the id \"h9\""},
      {"f,J,h0,h2,-1,5,0,", "\"-1\" is no time in seconds"},
      {"f,J,h0,h2,0.,5,0,", "\"0.\" is no time in seconds"},
      {"f,J,h0,h2,0.0000000001,5,0,", "is no time in seconds"},
      {"f,J,h0,h2,1000001,5,0,", "is no time in seconds"},
      {"f,J,h0,h2,99999999999999999999,5,0,", "is no time in seconds"},
      {"f,J,h0,h2,0,-5,0,", "bytes is \"-5\""},
      {"f,J,h0,h2,0,9999999999999999,0,", "bytes is"},
      {"f,J,h0,h2,0,5,1,", "path is \"1\" (write a whole number from 0 to 0)"},
      {"f,J,h0,h2,0,5,0,", "the row has no links, and its ends have no switch in common"},
      {"f,J,h0,h2,0,5,0,h0--leaf0>leaf0", "the path leads to leaf0"},
      {"f,J,h0,h2,0,5,0,leaf0--spine0>spine0", "names no link that continues it at h0"},
      {"f,J,h0,h2,0,5,0,h0--leaf0>leaf0/h1--leaf0>h1", "the path leads to h1"},
  };
  for (const auto& [row, error] : rows) {
    EXPECT_THAT(TableErrorOf(kTop + row + "\n"), testing::HasSubstr(error)) << row;
  }
}

TEST(ReplayTable, RefusesContradictionsBetweenRowsOfAFlow) {
  const std::string row = "f,J,h0,h2,0,5,0," + kUp + "\n";
  EXPECT_EQ(TableErrorOf(kTop + row + "f,J,h0,h2,0,5,1," + kUp + "\n"), "");
  EXPECT_THAT(TableErrorOf(kTop + row + "f,J,h0,h2,1,5,1," + kUp + "\n"),
              testing::HasSubstr("other ends or another start"));
  EXPECT_THAT(TableErrorOf(kTop + row + "g,J,h0,h1,0,5,0,\n" + row),
              testing::HasSubstr("flow \"f\" is also on an earlier line"));
}

TEST(ReplayTable, RefusesLinksOutOfService) {
  fabric::Topology topology = TwoLeaves();
  topology.SetLinkState(*topology.FindLink("leaf0--spine0"), fabric::LinkState::kDown);
  EXPECT_THAT(TableErrorOf(kTop + "f,J,h0,h2,0,5,0," + kUp + "\n", topology),
              testing::HasSubstr("takes a link that is DOWN at leaf0"));
}

}  // namespace
}  // namespace espalier::offline
