#include "common/files/topology_file.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "common/fabric/builders.h"

namespace espalier::io {
namespace {

using fabric::BuildFatTree;
using fabric::BuildLeafSpine;
using fabric::BuildRails;
using fabric::LinkState;
using fabric::NodeKind;
using fabric::SwitchRole;
using fabric::Topology;
using fabric::TopologySpec;

constexpr std::string_view kTwoHosts = R"({"name": "two-hosts", "version": 7,
 "nodes": [{"id": "host0/gpu0", "kind": "COMPUTE", "host": "host0"},
           {"id": "host0/nvswitch", "kind": "SWITCH", "host": "host0", "multicast": true, "reduce": false},
           {"id": "host0/nic0", "kind": "NIC", "host": "host0", "addresses": ["10.0.0.1"], "device": "mlx5_0", "gid_index": 3},
           {"id": "leaf0", "kind": "SWITCH", "role": "LEAF", "ecmp": {"hash": "crc32", "seed": 7}}],
 "links": [{"a": "host0/gpu0", "b": "host0/nvswitch", "gbps": 3600},
           {"id": "l17", "a": "host0/nic0", "b": "leaf0", "gbps": "100", "a_address": "10.0.0.1", "b_address": "10.0.0.0", "a_port": "eth0", "b_port": "Ethernet4"},
           {"a": "host0/gpu0", "b": "host0/nic0", "gbps": 12.5, "directed": true, "state": "DOWN"},
           {"a": "host0/gpu0", "b": "host0/nic0", "gbps": 0.1, "state": "DRAINED"}]}
)";

Topology ParseGood(std::string_view text) {
  auto topology = ParseTopology(text, "t.json");
  EXPECT_TRUE(topology.has_value()) << topology.error().message;
  return *topology;
}

std::string ErrorOf(std::string_view text) {
  const auto topology = ParseTopology(text, "t.json");
  EXPECT_FALSE(topology.has_value()) << text;
  if (!topology) {
    EXPECT_EQ(topology.error().code, ErrorCode::kInvalidArgument);
  }
  return topology ? "" : topology.error().message;
}

TEST(ParseTopology, ReadsWhatChoosesTheUplink) {
  const Topology topology = ParseGood(R"({"nodes": [
    {"id": "n0", "kind": "NIC", "uplink": "hash", "uplink_hash": {"hash": "bond-layer3+4"}},
    {"id": "n1", "kind": "NIC", "uplink": "affinity"}, {"id": "n2", "kind": "NIC", "uplink": "fixed"},
    {"id": "n3", "kind": "NIC", "uplink": "unknown"}, {"id": "n4", "kind": "COMPUTE", "uplink": "hash"}],
    "links": []})");
  using fabric::UplinkChoice;
  const auto nodes = topology.nodes();
  EXPECT_EQ(nodes[0].uplink, UplinkChoice::kHash);
  EXPECT_EQ(nodes[0].ecmp, (fabric::EcmpSpec{"bond-layer3+4", 0}));
  EXPECT_EQ(nodes[1].uplink, UplinkChoice::kAffinity);
  EXPECT_EQ(nodes[2].uplink, UplinkChoice::kFixed);
  EXPECT_EQ(nodes[3].uplink, UplinkChoice::kUnknown);
  EXPECT_EQ(nodes[4].uplink, UplinkChoice::kHash);
  const std::string text = FormatTopology(topology.Spec());
  EXPECT_NE(text.find(R"("uplink":"hash","uplink_hash":{"hash":"bond-layer3+4","seed":0})"),
            std::string::npos)
      << text;
  EXPECT_EQ(ParseGood(text).Spec().nodes, topology.Spec().nodes);
}

TEST(ParseTopology, ReadsWeightsOfNextHops) {
  const std::string nodes = R"({"nodes": [{"id": "a", "kind": "SWITCH", "weights": {)";
  const std::string links = R"(}}, {"id": "b", "kind": "SWITCH"}, {"id": "c", "kind": "SWITCH"}],
    "links": [{"a": "a", "b": "b", "gbps": 1}, {"a": "c", "b": "a", "gbps": 1}, {"a": "b", "b": "c", "gbps": 1}]})";
  const Topology topology = ParseGood(nodes + R"("a--b": 3, "c--a": 2)" + links);
  using fabric::DirectedLink;
  const auto weight = [&](const char* link, bool forward) {
    return topology.WeightOf({*topology.FindLink(link), forward});
  };
  EXPECT_EQ(weight("a--b", true), 3);
  EXPECT_EQ(weight("a--b", false), 1) << "at the other end";
  EXPECT_EQ(weight("c--a", false), 2);
  EXPECT_EQ(weight("b--c", true), 1);
  const std::string text = FormatTopology(topology.Spec());
  EXPECT_EQ(ParseGood(text).Spec().nodes, topology.Spec().nodes) << text;
  EXPECT_NE(ErrorOf(nodes + R"("b--c": 2)" + links).find("node \"a\" has no link with the id"),
            std::string::npos);
  EXPECT_NE(ErrorOf(nodes + R"("a--b": 0)" + links).find("whole number from 1 to 256"),
            std::string::npos);
}

TEST(ParseTopology, ReadsMembersOfALag) {
  const std::string nodes =
      R"({"nodes": [{"id": "a", "kind": "SWITCH"}, {"id": "b", "kind": "SWITCH"}],
    "links": [{"a": "a", "b": "b", "gbps": 800, "members": )";
  const Topology topology = ParseGood(nodes + "2}]}");
  EXPECT_EQ(topology.links()[0].members, 2);
  const std::string text = FormatTopology(topology.Spec());
  EXPECT_EQ(ParseGood(text).links()[0], topology.links()[0]);
  for (const char* const wrong : {"0}]}", "65}]}", "\"2\"}]}", "1.5}]}"}) {
    EXPECT_NE(ErrorOf(nodes + wrong).find("members"), std::string::npos) << wrong;
  }
}

TEST(ParseTopology, ReadsEveryField) {
  const Topology topology = ParseGood(kTwoHosts);
  EXPECT_EQ(topology.name(), "two-hosts");
  EXPECT_EQ(topology.version(), 7);
  const auto& inner = topology.node(*topology.FindNode("host0/nvswitch"));
  EXPECT_EQ(inner.kind, NodeKind::kSwitch);
  EXPECT_TRUE(inner.multicast);
  EXPECT_FALSE(inner.reduce);
  const auto& nic = topology.node(*topology.FindNode("host0/nic0"));
  EXPECT_EQ(nic.host, "host0");
  EXPECT_EQ(nic.device, "mlx5_0");
  EXPECT_EQ(nic.gid_index, 3);
  const auto& leaf = topology.node(*topology.FindNode("leaf0"));
  EXPECT_EQ(leaf.role, SwitchRole::kLeaf);
  EXPECT_EQ(leaf.ecmp, (fabric::EcmpSpec{"crc32", 7}));
  const auto& link = topology.link(*topology.FindLink("l17"));
  EXPECT_EQ(link.rate.value, 100'000'000'000);
  EXPECT_EQ(link.b_port, "Ethernet4");
  const auto& down = topology.link(*topology.FindLink("host0/gpu0--host0/nic0"));
  EXPECT_TRUE(down.directed);
  EXPECT_EQ(down.state, LinkState::kDown);
  const auto& drained = topology.link(*topology.FindLink("host0/gpu0--host0/nic0#2"));
  EXPECT_EQ(drained.state, LinkState::kDrained);
  EXPECT_EQ(drained.rate.value, 100'000'000);  // 0.1 has no exact binary fraction
}

TEST(FormatTopology, ReadsBackToTheSame) {
  const TopologySpec specs[] = {ParseGood(kTwoHosts).Spec(), *BuildLeafSpine({}), *BuildFatTree({}),
                                *BuildRails({})};
  for (const TopologySpec& spec : specs) {
    const Topology topology = *Topology::Build(spec);
    const std::string text = FormatTopology(spec);
    const TopologySpec again = ParseGood(text).Spec();
    EXPECT_EQ(again.name, spec.name);
    EXPECT_EQ(again.version, spec.version);
    EXPECT_EQ(again.nodes, topology.Spec().nodes);
    EXPECT_EQ(again.links, topology.Spec().links);
    EXPECT_EQ(FormatTopology(again), FormatTopology(topology.Spec()));
  }
}

TEST(FormatTopology, KeepsLargeSeedsAndOddNames) {
  TopologySpec spec;
  spec.name = "quote \" and \\ and \xc3\xa9";
  spec.nodes.resize(1);
  spec.nodes[0].id = "s";
  spec.nodes[0].kind = NodeKind::kSwitch;
  spec.nodes[0].ecmp = fabric::EcmpSpec{"crc32", 0xFFFFFFFF};
  const Topology again = ParseGood(FormatTopology(spec));
  EXPECT_EQ(again.name(), spec.name);
  EXPECT_EQ(again.node(fabric::NodeId(0)).ecmp, spec.nodes[0].ecmp);
  EXPECT_TRUE(again.links().empty());
}

// A small valid file with one line replaced, and the expected error with its place.
struct BadCase {
  std::string_view node;  // the second node
  std::string_view link;  // the second link
  std::string_view error;
};

constexpr std::string_view kGoodNode = R"({"id": "b", "kind": "SWITCH"})";
constexpr std::string_view kGoodLink = R"({"a": "b", "b": "c", "gbps": 1})";

std::string File(std::string_view node, std::string_view link) {
  return fmt::format(
      "{{\"nodes\": [{{\"id\": \"a\", \"kind\": \"COMPUTE\", \"addresses\": [\"10.0.0.1\"]}},\n"
      "{},\n"
      "{{\"id\": \"c\", \"kind\": \"SWITCH\"}}],\n"
      "\"links\": [{{\"id\": \"first\", \"a\": \"a\", \"b\": \"b\", \"gbps\": 1, \"b_address\": "
      "\"10.0.0.2\"}},\n"
      "{}]}}\n",
      node, link);
}

TEST(ParseTopology, AcceptsTheFileThatTheBadCasesStartFrom) {
  ParseGood(File(kGoodNode, kGoodLink));
}

TEST(ParseTopology, NamesThePlaceOfEveryErrorInANode) {
  const std::pair<std::string_view, std::string_view> cases[] = {
      {R"({"id": "a", "kind": "SWITCH"})", "2:8: two nodes have the id \"a\""},
      {R"({"id": "", "kind": "SWITCH"})", "2:8: a node's id is empty"},
      {R"({"id": "x\u0007", "kind": "SWITCH"})", "2:8: a node's id contains a control"},
      {R"({"kind": "SWITCH"})", "2:1: field \"id\" is missing"},
      {R"({"id": 5, "kind": "SWITCH"})", "2:8: field \"id\" must be a string"},
      {R"({"id": "b"})", "2:1: field \"kind\" is missing"},
      {R"({"id": "b", "kind": "ROUTER"})",
       "2:21: unknown kind \"ROUTER\" (write one of COMPUTE, NIC, SWITCH)"},
      {R"({"id": "b", "kind": "switch"})", "2:21: unknown kind"},
      {R"({"id": "b", "kind": "SWITCH", "role": "TOR"})",
       "2:39: unknown role \"TOR\" (write one of LEAF, SPINE, CORE)"},
      {R"({"id": "b", "kind": "SWITCH", "role": "NONE"})", "2:39: unknown role"},
      {R"({"id": "b", "kind": "NIC", "role": "LEAF"})", "2:36: node \"b\" is a NIC"},
      {R"({"id": "b", "kind": "NIC", "ecmp": {"hash": "xor8"}})", "2:36: node \"b\" is a NIC"},
      {R"({"id": "b", "kind": "SWITCH", "colour": 1})", "2:31: unknown field \"colour\""},
      {R"({"id": "b", "kind": "SWITCH", "id": "d"})", "2:31: duplicate key \"id\""},
      {R"({"id": "b", "kind": "SWITCH", "multicast": 1})", "2:44: field \"multicast\" must be"},
      {R"({"id": "b", "kind": "SWITCH", "gid_index": -1})", "2:44: field \"gid_index\" must be"},
      {R"({"id": "b", "kind": "SWITCH", "addresses": "10.0.0.9"})", "2:44: field \"addresses\""},
      {R"({"id": "b", "kind": "SWITCH", "addresses": [1]})", "2:44: field \"addresses\" must be"},
      {R"({"id": "b", "kind": "SWITCH", "addresses": ["10.0.0"]})", "2:44: "},
      {R"({"id": "b", "kind": "SWITCH", "addresses": ["::"]})", "2:44: "},
      {R"({"id": "b", "kind": "SWITCH", "addresses": ["10.0.0.1"]})",
       "2:44: address 10.0.0.1 is used twice: node \"a\""},
      {R"({"id": "b", "kind": "SWITCH", "addresses": ["10.0.0.9", "10.0.0.9"]})",
       "2:44: address 10.0.0.9 is used twice"},
      {R"({"id": "b", "kind": "NIC", "uplink": "port"})", "2:38: unknown uplink \"port\""},
      {R"({"id": "b", "kind": "SWITCH", "uplink": "hash"})", "2:41: node \"b\" is a SWITCH"},
      {R"({"id": "b", "kind": "NIC", "uplink_hash": {"hash": "crc32"}})",
       "2:43: node \"b\" has an uplink_hash without"},
      {R"({"id": "b", "kind": "NIC", "uplink": "hash", "ecmp": {"hash": "crc32"}})",
       "2:54: node \"b\" is a NIC"},
      {R"({"id": "b", "kind": "NIC", "uplink": "hash", "uplink_hash": {"hash": "md5"}})",
       "2:70: unknown hash"},
      {R"({"id": "b", "kind": "SWITCH", "uplink_hash": {"hash": "crc32"}})",
       "2:46: node \"b\" is a SWITCH"},
      {R"({"id": "b", "kind": "SWITCH", "ecmp": "crc32"})", "2:39: field \"ecmp\" must be"},
      {R"({"id": "b", "kind": "SWITCH", "ecmp": {"seed": 1}})", "2:39: field \"hash\" is missing"},
      {R"({"id": "b", "kind": "SWITCH", "ecmp": {"hash": "md5"}})",
       "2:48: unknown hash \"md5\" (write one of linux"},
      {R"({"id": "b", "kind": "SWITCH", "ecmp": {"hash": "crc32", "seed": 4294967296}})",
       "2:65: seed 4294967296"},
      {R"({"id": "b", "kind": "SWITCH", "ecmp": {"hash": "crc32", "seed": -1}})", "2:65: field"},
      {R"({"id": "b", "kind": "SWITCH", "ecmp": {"hash": "crc32", "seed": true}})", "2:65: field"},
      {R"({"id": "b", "kind": "SWITCH", "ecmp": {"hash": "crc32", "salt": 1}})",
       "2:57: unknown field \"salt\""},
      {R"("b")", "2:1: expected an object"},
  };
  for (const auto& [node, error] : cases) {
    const std::string message = ErrorOf(File(node, kGoodLink));
    EXPECT_TRUE(message.starts_with(fmt::format("t.json:{}", error))) << node << "\n" << message;
  }
}

TEST(ParseTopology, NamesThePlaceOfEveryErrorInALink) {
  const std::pair<std::string_view, std::string_view> cases[] = {
      {R"({"a": "b", "b": "nobody", "gbps": 1})", "5:17: no node has the id \"nobody\""},
      {R"({"a": "nobody", "b": "b", "gbps": 1})", "5:7: no node has the id \"nobody\""},
      {R"({"b": "b", "gbps": 1})", "5:1: field \"a\" is missing"},
      {R"({"a": "b", "b": "b", "gbps": 1})", "5:17: the link joins \"b\" to itself"},
      {R"({"a": "b", "b": "c"})", "5:1: field \"gbps\" is missing"},
      {R"({"a": "b", "b": "c", "gbps": 0})", "5:30: bandwidth \"0\" is zero"},
      {R"({"a": "b", "b": "c", "gbps": -1})", "5:30: bandwidth \"-1\""},
      {R"({"a": "b", "b": "c", "gbps": 1e2})", "5:30: bandwidth \"1e2\""},
      {R"({"a": "b", "b": "c", "gbps": "fast"})", "5:30: bandwidth \"fast\""},
      {R"({"a": "b", "b": "c", "gbps": 0.0000000001})", "5:30: bandwidth"},
      {R"({"a": "b", "b": "c", "gbps": [1]})", "5:30: field \"gbps\" must be a number"},
      {R"({"id": "first", "a": "b", "b": "c", "gbps": 1})", "5:8: two links have the id \"first\""},
      {R"({"id": "", "a": "b", "b": "c", "gbps": 1})", "5:8: a link's id is empty"},
      {R"({"a": "b", "b": "c", "gbps": 1, "state": "BROKEN"})", "5:42: unknown state \"BROKEN\""},
      {R"({"a": "b", "b": "c", "gbps": 1, "directed": "yes"})", "5:45: field \"directed\""},
      {R"({"a": "b", "b": "c", "gbps": 1, "a_address": "10.0.0.2"})",
       "5:46: address 10.0.0.2 is used twice: node \"b\""},
      {R"({"a": "b", "b": "c", "gbps": 1, "b_address": "10.0.0.1"})",
       "5:46: address 10.0.0.1 is used twice: node \"a\""},
      {R"({"a": "b", "b": "c", "gbps": 1, "b_address": "fe80::1::2"})", "5:46: "},
      {R"({"a": "b", "b": "c", "gbps": 1, "latency": 5})", "5:33: unknown field \"latency\""},
      {R"(null)", "5:1: expected an object, found null"},
  };
  for (const auto& [link, error] : cases) {
    const std::string message = ErrorOf(File(kGoodNode, link));
    EXPECT_TRUE(message.starts_with(fmt::format("t.json:{}", error))) << link << "\n" << message;
  }
}

TEST(ParseTopology, NamesThePlaceOfErrorsOutside) {
  EXPECT_TRUE(ErrorOf("[]").starts_with("t.json:1:1: expected an object"));
  EXPECT_TRUE(ErrorOf("{\"nodes\": []}").starts_with("t.json:1:1: field \"links\" is missing"));
  EXPECT_TRUE(ErrorOf("{\"nodes\": {}, \"links\": []}").starts_with("t.json:1:11: "));
  EXPECT_TRUE(
      ErrorOf("{\"nodes\": [], \"links\": [], \"version\": -1}").starts_with("t.json:1:39: "));
  EXPECT_TRUE(ErrorOf("{\"nodes\": [], \"links\": [], \"hosts\": 1}")
                  .starts_with("t.json:1:28: unknown field \"hosts\""));
}

TEST(ReadTopologyFile, NamesTheFileThatIsMissing) {
  const auto topology = ReadTopologyFile("/nonexistent/fabric.json");
  ASSERT_FALSE(topology.has_value());
  EXPECT_EQ(topology.error().code, ErrorCode::kNotFound);
  EXPECT_TRUE(topology.error().message.starts_with("/nonexistent/fabric.json: "));
}

}  // namespace
}  // namespace espalier::io
