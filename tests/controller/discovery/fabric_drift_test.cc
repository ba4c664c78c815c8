// Where a discovered fabric differs from a given topology.
#include "controller/discovery/fabric_drift.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "common/fabric/builders.h"
#include "tests/controller/discovery/probe_world.h"

namespace espalier::discovery {
namespace {

using fabric::TopologySpec;
using Sentences = std::vector<std::string>;

TopologySpec ThreeLeaves() {
  return fabric::BuildLeafSpine({.spines = 2, .leaves = 3, .hosts_per_leaf = 2}).value();
}

fabric::Link& LinkNamed(TopologySpec& spec, const std::string& a, const std::string& b) {
  for (fabric::Link& link : spec.links) {
    if (spec.nodes[link.a.Index()].id == a && spec.nodes[link.b.Index()].id == b) return link;
  }
  ADD_FAILURE() << a << "--" << b;
  return spec.links.front();
}

// What a discovery of this fabric says of that topology.
Sentences Compared(TopologySpec fabric, TopologySpec given, Faults faults = {}) {
  ProbeWorld world(std::move(fabric), std::move(faults));
  const Discovered found = Discover(world);
  return CompareWithTopology(fabric::Topology::Build(std::move(given)).value(),
                             found.discovery->fabric(), found.discovery->evidence().endpoints());
}

TEST(FabricComparison, FindsNoDifferenceFromTheFabricItself) {
  const std::vector<TopologySpec> fabrics = {
      ThreeLeaves(), fabric::BuildFatTree({.k = 4}).value(),
      fabric::BuildRails({.boxes = 6, .rails = 4, .spines = 3}).value()};
  for (const TopologySpec& spec : fabrics) {
    EXPECT_EQ(Compared(spec, spec), Sentences{});
    EXPECT_EQ(Compared(spec, spec, {.hosts_answer = false}), Sentences{});
  }
  EXPECT_EQ(Compared(ThreeLeaves(), ThreeLeaves(), {.silent = {"spine1"}}), Sentences{});
}

TEST(FabricComparison, NamesALinkThatNoProbeMeets) {
  TopologySpec given = ThreeLeaves();
  TopologySpec fabric = given;
  LinkNamed(fabric, "leaf1", "spine1").state = fabric::LinkState::kDown;
  EXPECT_EQ(Compared(fabric, given),
            Sentences{"no probe has met the link leaf1--spine1 of the topology"});
  LinkNamed(given, "leaf1", "spine1").state = fabric::LinkState::kDrained;
  EXPECT_EQ(Compared(fabric, given), Sentences{}) << "nobody expects packets there";
}

TEST(FabricComparison, NamesCablesThatAreSwapped) {
  TopologySpec given = ThreeLeaves();
  std::swap(LinkNamed(given, "leaf0", "spine0").b_address,
            LinkNamed(given, "leaf0", "spine1").b_address);
  const Sentences found = Compared(ThreeLeaves(), given);
  ASSERT_GE(found.size(), 2U);
  std::string all;
  for (const std::string& sentence : found) all += sentence + "\n";
  EXPECT_NE(all.find("of the link leaf0--spine0 is wired to"), std::string::npos) << all;
}

TEST(FabricComparison, NamesWhatTheTopologyDoesNotHave) {
  const auto larger =
      fabric::BuildLeafSpine({.spines = 3, .leaves = 3, .hosts_per_leaf = 2}).value();
  TopologySpec given = larger;
  // Without spine2: its links are not told one by one, as the switch is not known.
  std::erase_if(given.links, [&](const fabric::Link& link) {
    return given.nodes[link.b.Index()].id == "spine2";
  });
  const auto spine = std::ranges::find(given.nodes, "spine2", &fabric::Node::id);
  const auto removed = static_cast<std::int32_t>(spine - given.nodes.begin());
  given.nodes.erase(spine);
  for (fabric::Link& link : given.links) {
    for (fabric::NodeId* const end : {&link.a, &link.b}) {
      if (end->value() > removed) *end = fabric::NodeId(end->value() - 1);
    }
  }
  const Sentences found = Compared(larger, given);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_TRUE(found[0].starts_with("the switch spine-")) << found[0];
  EXPECT_TRUE(found[0].ends_with("is not in the topology")) << found[0];
}

TEST(FabricComparison, NamesNicsThatAreElsewhereOrUnknown) {
  TopologySpec given = ThreeLeaves();
  std::vector<IpAddress>& first = given.nodes[LinkNamed(given, "h0", "leaf0").a.Index()].addresses;
  std::vector<IpAddress>& last = given.nodes[LinkNamed(given, "h5", "leaf2").a.Index()].addresses;
  std::swap(first, last);
  std::swap(LinkNamed(given, "h0", "leaf0").a_address, LinkNamed(given, "h5", "leaf2").a_address);
  const Sentences found = Compared(ThreeLeaves(), given);
  ASSERT_EQ(found.size(), 2U);
  EXPECT_TRUE(found[0].ends_with("is attached to leaf0 instead of leaf2")) << found[0];
  EXPECT_TRUE(found[1].ends_with("is attached to leaf2 instead of leaf0")) << found[1];
}

// The addresses of a fabric may be unknown altogether.
TEST(FabricComparison, SaysNothingOfLinksWithoutAddresses) {
  TopologySpec given = ThreeLeaves();
  for (fabric::Link& link : given.links) link.b_address = link.a_address = {};
  const Sentences found = Compared(ThreeLeaves(), given);
  EXPECT_EQ(found.size(), 5U) << "three leaves and two spines are not recognised";
}

TEST(FabricComparison, SaysNothingBeforeThereIsATopology) {
  EXPECT_EQ(Compared(ThreeLeaves(), TopologySpec{.name = "none"}), Sentences{});
}

// A wholly other fabric is not told in ten thousand sentences.
TEST(FabricComparison, IsBounded) {
  DiscoveredFabric fabric;
  fabric.switches.resize(kMostDifferences + 7);
  const auto topology = fabric::Topology::Build(ThreeLeaves()).value();
  const Sentences found = CompareWithTopology(topology, fabric, {});
  ASSERT_EQ(found.size(), kMostDifferences + 1);
  EXPECT_EQ(found.back(), "7 further differences are not listed");
}

}  // namespace
}  // namespace espalier::discovery
