// NICs with several uplinks: what the topology, paths and the recogniser of folded Clos make of
// them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "common/fabric/builders.h"
#include "common/fabric/ecmp/path_predictor.h"
#include "common/fabric/folded_clos.h"
#include "common/fabric/paths.h"
#include "common/fabric/tier_text.h"

namespace espalier::fabric {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TopologySpec Pairs(int planes, int uplinks = 2) {
  return *BuildLeafSpine({.spines = 4,
                          .leaves = 2 * uplinks,
                          .hosts_per_leaf = 3,
                          .planes = planes,
                          .uplinks = uplinks});
}

std::vector<std::string> NamesOf(const Topology& topology, const fabric::Path& path) {
  std::vector<std::string> names;
  for (const DirectedLink hop : path.hops) names.push_back(topology.DirectionName(hop));
  return names;
}

TEST(Uplinks, AreThoseOfNicsWithSeveralLinksOutOfTheirHost) {
  TopologySpec spec = Pairs(1);
  const Topology topology = *Topology::Build(spec);
  const NodeId h0 = *topology.FindNode("h0");
  EXPECT_TRUE(topology.HasSeveralUplinks(h0));
  EXPECT_FALSE(topology.HasSeveralUplinks(*topology.FindNode("leaf0")));
  EXPECT_TRUE(topology.IsFabricLink(*topology.FindLink("h0--leaf1")));
  EXPECT_FALSE(topology.IsSwitchToSwitch(*topology.FindLink("h0--leaf1")));
  EXPECT_TRUE(topology.IsFabricLink(*topology.FindLink("leaf0--spine0")));
  spec.nodes[h0.Index()].uplink = UplinkChoice::kFixed;
  const Topology fixed = *Topology::Build(spec);
  EXPECT_FALSE(fixed.HasSeveralUplinks(h0));
  EXPECT_FALSE(fixed.IsFabricLink(*fixed.FindLink("h0--leaf1")));
  EXPECT_FALSE(PathTable(fixed).FindAttachment(h0));
  EXPECT_THAT(WhyUnattached(fixed, h0), HasSubstr("h0 has several uplinks"));
}

TEST(Uplinks, LinksWithinAHostAreNone) {
  const Topology rails = *Topology::Build(*BuildRails({}));
  for (std::size_t i = 0; i < rails.nodes().size(); ++i) {
    EXPECT_FALSE(rails.HasSeveralUplinks(NodeId(static_cast<std::int32_t>(i))));
  }
  for (std::size_t i = 0; i < rails.links().size(); ++i) {
    const LinkId link(static_cast<std::int32_t>(i));
    EXPECT_EQ(rails.IsFabricLink(link), rails.IsSwitchToSwitch(link));
  }
}

TEST(Uplinks, AreTheFirstAndLastHopsOfPaths) {
  const Topology topology = *Topology::Build(Pairs(1));
  const PathTable paths(topology);
  const NodeId h0 = *topology.FindNode("h0");
  const auto attachment = paths.FindAttachment(h0);
  ASSERT_TRUE(attachment);
  EXPECT_EQ(attachment->leaf, h0);
  EXPECT_FALSE(attachment->uplink);
  EXPECT_FALSE(attachment->Downlink());
  const auto across = paths.Between(h0, *topology.FindNode("h3"));
  ASSERT_EQ(across.size(), 16U);  // 2 x 4 x 2
  EXPECT_THAT(NamesOf(topology, across[0]), ElementsAre("h0--leaf0>leaf0", "leaf0--spine0>spine0",
                                                        "leaf2--spine0>leaf2", "h3--leaf2>h3"));
  EXPECT_EQ(NamesOf(topology, across[1])[3], "h3--leaf3>h3");
  EXPECT_EQ(ViaNames(topology, across[15]), "leaf1,spine3,leaf3");
  EXPECT_EQ(paths.Opposite(h0, *topology.FindNode("h3"), PathIndex(1))->value(), 8);
  const auto within = paths.Between(h0, *topology.FindNode("h2"));
  ASSERT_EQ(within.size(), 2U);
  EXPECT_THAT(NamesOf(topology, within[1]), ElementsAre("h0--leaf1>leaf1", "h2--leaf1>h2"));
  EXPECT_EQ(paths.Tier(*topology.FindNode("leaf0")), 0);
  EXPECT_EQ(paths.Tier(*topology.FindNode("spine0")), 1);
  EXPECT_EQ(paths.Level(*topology.FindNode("spine0")), 2);
  EXPECT_EQ(paths.Level(h0), 0);
}

TEST(Uplinks, StayInTheirPlane) {
  const Topology topology = *Topology::Build(Pairs(2));
  const PathTable paths(topology);
  const auto across = paths.Between(*topology.FindNode("h0"), *topology.FindNode("h3"));
  ASSERT_EQ(across.size(), 4U);
  EXPECT_EQ(ViaNames(topology, across[0]), "leaf0,spine0,leaf2");
  EXPECT_EQ(ViaNames(topology, across[3]), "leaf1,spine3,leaf3");
}

TEST(Uplinks, OfTwoPlanesMakeAFoldedClosWithoutRoles) {
  for (const bool has_roles : {true, false}) {
    TopologySpec spec = Pairs(2);
    for (Node& node : spec.nodes) {
      if (!has_roles) node.role = SwitchRole::kNone;
    }
    const Topology topology = *Topology::Build(spec);
    const PathTable paths(topology);
    const auto clos = RecognizeFoldedClos(topology, paths);
    ASSERT_TRUE(clos) << clos.error();
    EXPECT_EQ(clos->tiers, 3U);
    EXPECT_EQ(clos->leaves, 6U);
    EXPECT_EQ(DescribeTiers(topology, clos),
              "folded Clos of 2 tiers below which the uplinks of NICs are chosen, too: 2 groups of "
              "3 NICs and 2 "
              "leaves, 2 planes of 2 spines; oversubscribed 1.5:1 above the leaves");
  }
}

TEST(Uplinks, OfOnePlaneAreNoFoldedClos) {
  const Topology topology = *Topology::Build(Pairs(1));
  const PathTable paths(topology);
  EXPECT_FALSE(RecognizeFoldedClos(topology, paths));
}

TEST(Uplinks, BesideNicsWithOneUplinkAreNoFoldedClos) {
  TopologySpec spec = Pairs(2);
  std::erase_if(spec.links, [](const Link& link) { return link.id == "h0--leaf1"; });
  const Topology topology = *Topology::Build(spec);
  const PathTable paths(topology);
  const auto clos = RecognizeFoldedClos(topology, paths);
  ASSERT_FALSE(clos);
  EXPECT_EQ(clos.error(), "h0 has one uplink, other NICs have several");
  // Its flows have paths still.
  const auto from = paths.FindAttachment(*topology.FindNode("h0"));
  ASSERT_TRUE(from && from->uplink);
  EXPECT_EQ(paths.Between(from->leaf, *topology.FindNode("h3")).size(), 2U);
}

TEST(Uplinks, ThreeOfThemAreThreeChoices) {
  const Topology topology = *Topology::Build(Pairs(1, 3));
  const PathTable paths(topology);
  EXPECT_EQ(paths.Between(*topology.FindNode("h0"), *topology.FindNode("h3")).size(), 36U);
}

// Without leaves in common: the uplinks of one NIC lead to different pods.
TEST(Uplinks, ToDifferentPodsHavePaths) {
  TopologySpec spec = *BuildPods({.pods = 2, .leaves_per_pod = 2, .hosts_per_leaf = 2});
  Link second;
  const Topology one = *Topology::Build(spec);
  second.a = *one.FindNode("h0");
  second.b = *one.FindNode("leaf2");
  second.rate = spec.links.front().rate;
  spec.links.push_back(second);
  const Topology topology = *Topology::Build(spec);
  const PathTable paths(topology);
  EXPECT_EQ(paths.FindAttachment(*topology.FindNode("h0"))->leaf, *topology.FindNode("h0"));
  const auto to_second = paths.FindAttachment(*topology.FindNode("h7"));
  ASSERT_TRUE(to_second);
  // The way by the uplink into the pod of the destination is shorter.
  for (const fabric::Path& path : paths.Between(*topology.FindNode("h0"), to_second->leaf)) {
    EXPECT_EQ(topology.link(path.hops.front().link).id, "h0--leaf2");
  }
}

TEST(Uplinks, AreRefusedAtSwitches) {
  TopologySpec spec = Pairs(1);
  for (Node& node : spec.nodes) {
    if (node.id == "leaf0") node.uplink = UplinkChoice::kHash;
  }
  const auto topology = Topology::Build(spec);
  ASSERT_FALSE(topology);
  EXPECT_EQ(topology.error().field, "uplink");
  EXPECT_THAT(topology.error().error.message, HasSubstr("\"leaf0\" is a SWITCH"));
}

// A port's uplink, spine and last leaf are three choices, which the hashes of three nodes make.
TEST(Uplinks, ArePredictedByTheHashOfTheNic) {
  TopologySpec spec = Pairs(1);
  std::uint64_t seed = 0;
  for (Node& node : spec.nodes) {
    const bool is_switch = node.kind == NodeKind::kSwitch;
    node.ecmp = is_switch ? EcmpSpec{"linux", ++seed} : EcmpSpec{"bond-layer3+4", 0};
  }
  const Topology topology = *Topology::Build(spec);
  PathTable paths(topology);
  auto predictor = PathPredictor::Build(topology, paths);
  ASSERT_TRUE(predictor) << predictor.error().message;
  const NodeId h0 = *topology.FindNode("h0");
  const NodeId h3 = *topology.FindNode("h3");
  FlowTuple tuple{.source = topology.node(h0).addresses.front(),
                  .destination = topology.node(h3).addresses.front()};
  const auto bond = *MakeEcmpHash({"bond-layer3+4", 0});
  std::set<std::int32_t> taken;
  for (unsigned port = 49'152; port < 49'152 + 400; ++port) {
    tuple.source_port = static_cast<std::uint16_t>(port);
    const auto path = predictor->Predict(tuple, h0, h3);
    ASSERT_TRUE(path);
    taken.insert(path->value());
    EXPECT_EQ(path->Index() / 8, bond->Choose(tuple, 2)) << port;
  }
  EXPECT_EQ(taken.size(), 16U);
}

// Next hop i of a Linux route takes the hashes up to its part of the sum of all weights.
TEST(WeightedNextHops, TakeTheirPartOfThePorts) {
  TopologySpec spec = *BuildLeafSpine({.spines = 2, .leaves = 2, .hosts_per_leaf = 1});
  for (Node& node : spec.nodes) {
    if (node.kind == NodeKind::kSwitch) node.ecmp = EcmpSpec{"linux", 7};
    if (node.id == "leaf0") node.weights = {{"leaf0--spine1", 3}};
  }
  const Topology topology = *Topology::Build(spec);
  PathTable paths(topology);
  auto predictor = *PathPredictor::Build(topology, paths);
  const NodeId h0 = *topology.FindNode("h0");
  const NodeId h1 = *topology.FindNode("h1");
  FlowTuple tuple{.source = topology.node(h0).addresses.front(),
                  .destination = topology.node(h1).addresses.front()};
  const auto hash = *MakeEcmpHash({"linux", 7});
  int over_spine1 = 0;
  for (unsigned port = 49'152; port < 49'152 + 4'000; ++port) {
    tuple.source_port = static_cast<std::uint16_t>(port);
    const auto path = predictor.Predict(tuple, h0, h1);
    ASSERT_TRUE(path);
    EXPECT_EQ(path->value(), hash->Choose(tuple, 4) == 0 ? 0 : 1);
    over_spine1 += path->value();
  }
  EXPECT_NEAR(over_spine1, 3'000, 170);  // six standard deviations
}

}  // namespace
}  // namespace espalier::fabric
