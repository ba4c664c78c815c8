#include "collective/forest/ecmp/ecmp_routes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "collective/forest/problem/build_problem.h"
#include "tests/collective/forest/reference_cases.h"

namespace espalier::forest {
namespace {

using fabric::Link;
using fabric::Node;
using fabric::NodeId;
using fabric::NodeKind;
using fabric::SwitchRole;
using fabric::TopologySpec;
using testing::ElementsAre;
using testing::IsEmpty;

Node& AddNode(TopologySpec& spec, std::string id, NodeKind kind, std::string host) {
  Node& node = spec.nodes.emplace_back();
  node.id = std::move(id);
  node.kind = kind;
  node.host = std::move(host);
  return node;
}

NodeId Find(const TopologySpec& spec, std::string_view id) {
  for (std::size_t i = 0; i < spec.nodes.size(); ++i) {
    if (spec.nodes[i].id == id) return NodeId(static_cast<std::int32_t>(i));
  }
  ADD_FAILURE() << "no node " << id;
  return NodeId(0);
}

Link& Join(TopologySpec& spec, std::string_view a, std::string_view b) {
  Link& link = spec.links.emplace_back();
  link.a = Find(spec, a);
  link.b = Find(spec, b);
  link.rate = BitsPerSecond{1'000'000'000};
  return link;
}

// Two GPUs behind a switch and two NICs, and one that is its own NIC, on two leaves and two spines.
TopologySpec MakeSpec() {
  TopologySpec spec;
  for (const char* gpu : {"gpu0", "gpu1"}) AddNode(spec, gpu, NodeKind::kCompute, "h");
  AddNode(spec, "gpu2", NodeKind::kCompute, "g");
  for (const char* nic : {"nic0", "nic1"}) AddNode(spec, nic, NodeKind::kNic, "h");
  AddNode(spec, "sw", NodeKind::kSwitch, "h");
  for (const char* leaf : {"leaf0", "leaf1"}) {
    AddNode(spec, leaf, NodeKind::kSwitch, "").role = SwitchRole::kLeaf;
  }
  for (const char* spine : {"spine0", "spine1"}) {
    AddNode(spec, spine, NodeKind::kSwitch, "").role = SwitchRole::kSpine;
    for (const char* leaf : {"leaf0", "leaf1"}) Join(spec, leaf, spine);
  }
  for (const char* end : {"gpu0", "gpu1", "nic0", "nic1"}) Join(spec, end, "sw");
  Join(spec, "nic0", "leaf0");
  Join(spec, "nic1", "leaf0");
  Join(spec, "gpu2", "leaf1");
  return spec;
}

// Returns the nodes of every route between two ranks, along the arcs of the problem.
std::vector<std::string> RoutesOf(const TopologySpec& spec, Rank from, Rank to,
                                  bool reversed = false) {
  const fabric::Topology topology = BuildTopology(spec);
  Problem problem = *BuildProblem(topology, {.balanced = false});
  if (reversed) problem = Transpose(problem);
  EcmpRoutes routes(topology, problem, reversed);
  const EcmpRoutes::RouteSegments segments = routes.Between(from, to);
  std::vector<std::string> all;
  if (!segments.exist()) return all;
  EXPECT_FALSE(segments.middle.empty());
  for (const EcmpRoutes::Hops& middle : segments.middle) {
    std::string& text = all.emplace_back(problem.names[from]);
    std::int32_t at = from;
    for (const EcmpRoutes::Hops* hops : {segments.out, &middle, segments.in}) {
      for (const std::int32_t hop : *hops) {
        const Arc& arc = problem.arcs.at(static_cast<std::size_t>(hop));
        EXPECT_EQ(arc.tail, at);
        at = arc.head;
        text += " " + problem.names[static_cast<std::size_t>(at)];
      }
    }
    EXPECT_EQ(at, to);
  }
  return all;
}

TEST(EcmpRoutes, JoinRanksWithinTheirHostOrOverAllSpines) {
  const TopologySpec spec = MakeSpec();
  EXPECT_THAT(RoutesOf(spec, 0, 1), ElementsAre("gpu0 sw gpu1"));
  EXPECT_THAT(RoutesOf(spec, 0, 2), ElementsAre("gpu0 sw nic0 leaf0 spine0 leaf1 gpu2",
                                                "gpu0 sw nic0 leaf0 spine1 leaf1 gpu2"));
  EXPECT_THAT(RoutesOf(spec, 2, 0), ElementsAre("gpu2 leaf1 spine0 leaf0 nic0 sw gpu0",
                                                "gpu2 leaf1 spine1 leaf0 nic0 sw gpu0"));
  // Parallel links are one arc.
  TopologySpec doubled = spec;
  Join(doubled, "leaf0", "spine0");
  EXPECT_EQ(RoutesOf(doubled, 0, 2), RoutesOf(spec, 0, 2));
  // Ranks of no host are their own NICs, and share no host.
  TopologySpec alone = spec;
  AddNode(alone, "gpu3", NodeKind::kCompute, "");
  Join(alone, "gpu3", "leaf0");
  alone.nodes[2].host = "";
  EXPECT_THAT(RoutesOf(alone, 2, 3),
              ElementsAre("gpu2 leaf1 spine0 leaf0 gpu3", "gpu2 leaf1 spine1 leaf0 gpu3"));
}

// The order of preference: an address, few hops, few users, the order of the topology.
TEST(EcmpRoutes, ChooseTheNic) {
  const auto nic_of = [](const TopologySpec& spec, Rank rank) {
    const std::string route = RoutesOf(spec, rank, 2).front();
    return route.substr(route.find("nic"), 4);
  };
  TopologySpec spec = MakeSpec();
  EXPECT_EQ(nic_of(spec, 0), "nic0");
  EXPECT_EQ(nic_of(spec, 1), "nic1");
  Join(spec, "gpu1", "nic0");
  EXPECT_EQ(nic_of(spec, 0), "nic0");
  EXPECT_EQ(nic_of(spec, 1), "nic0");
  spec.nodes[Find(spec, "nic1").Index()].addresses = {*IpAddress::Parse("10.0.0.1")};
  EXPECT_EQ(nic_of(spec, 0), "nic1");
  EXPECT_EQ(nic_of(spec, 1), "nic1");
}

TEST(EcmpRoutes, AvoidDeadLinks) {
  const auto kill = [](TopologySpec& spec, std::string_view a, std::string_view b) {
    for (Link& link : spec.links) {
      if (link.a == Find(spec, a) && link.b == Find(spec, b)) {
        link.state = fabric::LinkState::kDown;
      }
    }
  };
  TopologySpec spec = MakeSpec();
  kill(spec, "nic0", "leaf0");
  kill(spec, "leaf0", "spine0");
  EXPECT_THAT(RoutesOf(spec, 0, 2), ElementsAre("gpu0 sw nic1 leaf0 spine1 leaf1 gpu2"));
  kill(spec, "leaf1", "spine1");
  EXPECT_THAT(RoutesOf(spec, 0, 2), IsEmpty());
  kill(spec, "nic1", "leaf0");
  EXPECT_THAT(RoutesOf(spec, 2, 1), IsEmpty());
}

// A GPU forwards only for itself, and a node of the host has to be reached and reach back.
TEST(EcmpRoutes, PassNoOtherRankAndNoOneWayLinkOfTheHost) {
  TopologySpec chain;
  for (const char* gpu : {"gpu0", "gpu1", "gpu2"}) AddNode(chain, gpu, NodeKind::kCompute, "h");
  Join(chain, "gpu0", "gpu1");
  Join(chain, "gpu1", "gpu2");
  EXPECT_THAT(RoutesOf(chain, 0, 1), ElementsAre("gpu0 gpu1"));
  EXPECT_THAT(RoutesOf(chain, 0, 2), IsEmpty());
  TopologySpec spec = MakeSpec();
  Join(spec, "gpu0", "nic1").directed = true;
  EXPECT_THAT(RoutesOf(spec, 0, 2), ElementsAre("gpu0 sw nic0 leaf0 spine0 leaf1 gpu2",
                                                "gpu0 sw nic0 leaf0 spine1 leaf1 gpu2"));
}

// On a transposed problem, data travels against the arcs: over spine2 it goes to leaf1 only.
TEST(EcmpRoutes, FollowTheDataOnATransposedProblem) {
  TopologySpec spec = MakeSpec();
  AddNode(spec, "spine2", NodeKind::kSwitch, "").role = SwitchRole::kSpine;
  Join(spec, "leaf0", "spine2").directed = true;
  Join(spec, "spine2", "leaf1").directed = true;
  EXPECT_EQ(RoutesOf(spec, 0, 2).size(), 3U);
  EXPECT_EQ(RoutesOf(spec, 2, 0).size(), 2U);
  EXPECT_EQ(RoutesOf(spec, 0, 2, /*reversed=*/true).size(), 2U);
  EXPECT_THAT(
      RoutesOf(spec, 2, 0, /*reversed=*/true),
      ElementsAre("gpu2 leaf1 spine0 leaf0 nic0 sw gpu0", "gpu2 leaf1 spine1 leaf0 nic0 sw gpu0",
                  "gpu2 leaf1 spine2 leaf0 nic0 sw gpu0"));
}

}  // namespace
}  // namespace espalier::forest
