#include "common/fabric/topology.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "common/fabric/builders.h"

namespace espalier::fabric {
namespace {

Node MakeNode(std::string id, NodeKind kind, std::string host = "") {
  Node node;
  node.id = std::move(id);
  node.kind = kind;
  node.host = std::move(host);
  return node;
}

Link MakeLink(int a, int b) {
  Link link;
  link.a = NodeId(a);
  link.b = NodeId(b);
  link.rate = BitsPerSecond{1};
  return link;
}

TopologySpec ThreeSwitches() {
  TopologySpec spec;
  for (const char* id : {"a", "b", "c"}) spec.nodes.push_back(MakeNode(id, NodeKind::kSwitch));
  return spec;
}

Topology BuildOrDie(TopologySpec spec) {
  auto topology = Topology::Build(std::move(spec));
  EXPECT_TRUE(topology.has_value()) << topology.error().error.message;
  return *topology;
}

IpAddress Ip(const char* text) { return *IpAddress::Parse(text); }

TEST(Topology, NamesParallelLinksInOrder) {
  TopologySpec spec = ThreeSwitches();
  spec.links = {MakeLink(0, 1), MakeLink(0, 1), MakeLink(1, 0), MakeLink(0, 1), MakeLink(1, 2)};
  spec.links[3].id = "a--b#2";  // this id is taken, so the second link without an id gets #3
  const Topology topology = BuildOrDie(spec);
  const char* const expected[] = {"a--b", "a--b#3", "b--a", "a--b#2", "b--c"};
  for (std::size_t i = 0; i < std::size(expected); ++i) {
    EXPECT_EQ(topology.links()[i].id, expected[i]);
    EXPECT_EQ(topology.FindLink(expected[i]), LinkId(static_cast<int>(i)));
  }
  EXPECT_EQ(topology.FindLink("a--c"), std::nullopt);
  EXPECT_EQ(topology.FindNode("d"), std::nullopt);
}

TEST(Topology, ListsTheDirectionsThatLeaveANode) {
  TopologySpec spec = ThreeSwitches();
  spec.links = {MakeLink(1, 0), MakeLink(0, 2), MakeLink(2, 0)};
  spec.links[2].directed = true;
  const Topology topology = BuildOrDie(spec);
  const auto from_a = topology.Outgoing(NodeId(0));
  ASSERT_EQ(from_a.size(), 2U);
  EXPECT_EQ(topology.DirectionName(from_a[0]), "b--a>b");
  EXPECT_EQ(topology.DirectionName(from_a[1]), "a--c>c");
  const auto from_c = topology.Outgoing(NodeId(2));
  ASSERT_EQ(from_c.size(), 2U);
  EXPECT_EQ(topology.DirectionName(from_c[0]), "a--c>a");
  EXPECT_EQ(topology.DirectionName(from_c[1]), "c--a>a");
  for (const DirectedLink direction : from_c) {
    EXPECT_EQ(topology.From(direction), NodeId(2));
    EXPECT_EQ(DirectedLink::FromIndex(direction.Index()), direction);
  }
}

TEST(Topology, RaisesItsVersionWithEachRealChange) {
  TopologySpec spec = ThreeSwitches();
  spec.links = {MakeLink(0, 1)};
  spec.version = 41;
  Topology topology = BuildOrDie(spec);
  const Topology snapshot = topology;
  EXPECT_FALSE(topology.SetLinkState(LinkId(0), LinkState::kUp));
  EXPECT_EQ(topology.version(), 41);
  EXPECT_TRUE(topology.SetLinkState(LinkId(0), LinkState::kDown));
  EXPECT_TRUE(topology.SetLinkState(LinkId(0), LinkState::kDrained));
  EXPECT_FALSE(topology.SetLinkState(LinkId(0), LinkState::kDrained));
  EXPECT_EQ(topology.version(), 43);
  EXPECT_EQ(topology.link(LinkId(0)).state, LinkState::kDrained);
  EXPECT_EQ(snapshot.version(), 41);
  EXPECT_EQ(snapshot.link(LinkId(0)).state, LinkState::kUp);
}

TEST(Topology, FindsWhoHasAnAddress) {
  TopologySpec spec;
  spec.nodes = {MakeNode("box/gpu", NodeKind::kCompute, "box"),
                MakeNode("box/nic", NodeKind::kNic, "box"),
                MakeNode("box/nvswitch", NodeKind::kSwitch, "box"),
                MakeNode("host", NodeKind::kCompute, "host"), MakeNode("leaf", NodeKind::kSwitch)};
  spec.nodes[0].addresses = {Ip("10.0.0.9")};
  spec.nodes[1].addresses = {Ip("10.0.0.1"), Ip("fd00::1")};
  spec.nodes[4].addresses = {Ip("192.0.2.1")};
  spec.links = {MakeLink(0, 2), MakeLink(0, 1), MakeLink(1, 4), MakeLink(4, 3)};
  spec.links[2].a_address = Ip("10.0.0.1");
  spec.links[2].b_address = Ip("10.0.0.0");
  spec.links[3].b_address = Ip("10.0.0.3");
  const Topology topology = BuildOrDie(spec);

  EXPECT_EQ(topology.FindNic(Ip("10.0.0.1")), NodeId(1));
  EXPECT_EQ(topology.FindNic(Ip("fd00::1")), NodeId(1));
  EXPECT_EQ(topology.FindNic(Ip("10.0.0.3")),
            NodeId(3));  // known by the address of its link end only
  EXPECT_EQ(topology.FindNic(Ip("10.0.0.9")), std::nullopt);  // a GPU behind a NIC is not a NIC
  EXPECT_EQ(topology.FindNic(Ip("192.0.2.1")), std::nullopt);

  EXPECT_EQ(topology.FindInterface(Ip("10.0.0.0"))->node, NodeId(4));
  EXPECT_EQ(topology.FindInterface(Ip("10.0.0.0"))->link, LinkId(2));
  EXPECT_EQ(topology.FindInterface(Ip("10.0.0.1"))->link, LinkId(2));
  EXPECT_EQ(topology.FindInterface(Ip("192.0.2.1"))->link, std::nullopt);
  EXPECT_FALSE(topology.FindInterface(Ip("192.0.2.9")).has_value());

  EXPECT_TRUE(topology.IsFlowEndpoint(NodeId(1)));
  EXPECT_TRUE(topology.IsFlowEndpoint(NodeId(3)));
  EXPECT_FALSE(topology.IsFlowEndpoint(NodeId(0)));
  EXPECT_FALSE(topology.IsFlowEndpoint(NodeId(4)));
  EXPECT_FALSE(topology.IsSwitchToSwitch(LinkId(2)));
}

TEST(Topology, SaysWhichPartOfASpecIsWrong) {
  using Part = Topology::SpecError::Part;
  struct Case {
    std::function<void(TopologySpec&)> spoil;
    Part part;
    std::size_t index;
    std::string_view field;
  };
  const Case cases[] = {
      {[](auto& s) { s.nodes[2].id = "a"; }, Part::kNode, 2, "id"},
      {[](auto& s) { s.nodes[1].id = ""; }, Part::kNode, 1, "id"},
      {[](auto& s) { s.nodes[1].id = std::string(256, 'x'); }, Part::kNode, 1, "id"},
      {[](auto& s) { s.links[1].id = "tab\t"; }, Part::kLink, 1, "id"},
      {[](auto& s) { s.links[0].id = s.links[1].id = "same"; }, Part::kLink, 1, "id"},
      {[](auto& s) { s.links[1].b = NodeId(3); }, Part::kLink, 1, "b"},
      {[](auto& s) { s.links[1].a = NodeId(-1); }, Part::kLink, 1, "a"},
      {[](auto& s) { s.links[1].b = s.links[1].a; }, Part::kLink, 1, "b"},
      {[](auto& s) { s.links[0].rate.value = 0; }, Part::kLink, 0, "gbps"},
      {[](auto& s) { s.links[0].rate.value = -5; }, Part::kLink, 0, "gbps"},
      {[](auto& s) { s.nodes[0].addresses = s.nodes[1].addresses = {Ip("10.0.0.1")}; }, Part::kNode,
       1, "addresses"},
      {[](auto& s) { s.links[0].a_address = s.links[0].b_address = Ip("10.0.0.1"); }, Part::kLink,
       0, "b_address"},
      {[](auto& s) { s.links[0].a_address = s.links[1].a_address = Ip("10.0.0.1"); }, Part::kLink,
       1, "a_address"},
      {[](auto& s) {
         s.nodes[2].kind = NodeKind::kNic;
         s.nodes[2].role = SwitchRole::kLeaf;
       },
       Part::kNode, 2, "role"},
  };
  for (const Case& c : cases) {
    TopologySpec spec = ThreeSwitches();
    spec.links = {MakeLink(0, 1), MakeLink(0, 2)};
    c.spoil(spec);
    const auto topology = Topology::Build(spec);
    ASSERT_FALSE(topology.has_value()) << c.field << " of part " << c.index;
    EXPECT_EQ(topology.error().part, c.part) << topology.error().error.message;
    EXPECT_EQ(topology.error().index, c.index) << topology.error().error.message;
    EXPECT_EQ(topology.error().field, c.field) << topology.error().error.message;
  }
}

TEST(Topology, AcceptsWhatALiveFabricMayBe) {
  TopologySpec spec = ThreeSwitches();  // without links between them
  EXPECT_TRUE(Topology::Build(spec).has_value());
  EXPECT_TRUE(Topology::Build({}).has_value());
}

TEST(Topology, BuildsAgainFromItsOwnSpec) {
  Topology topology = BuildOrDie(*BuildLeafSpine({}));
  topology.SetLinkState(LinkId(20), LinkState::kDown);
  const Topology again = BuildOrDie(topology.Spec());
  EXPECT_EQ(again.version(), topology.version());
  EXPECT_TRUE(std::ranges::equal(again.nodes(), topology.nodes()));
  EXPECT_TRUE(std::ranges::equal(again.links(), topology.links()));
}

}  // namespace
}  // namespace espalier::fabric
