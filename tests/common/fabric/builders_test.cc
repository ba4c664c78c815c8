#include "common/fabric/builders.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "common/fabric/paths.h"

namespace espalier::fabric {
namespace {

Topology BuildOrDie(Result<TopologySpec> spec) {
  EXPECT_TRUE(spec.has_value()) << spec.error().message;
  auto topology = Topology::Build(*spec);
  EXPECT_TRUE(topology.has_value()) << topology.error().error.message;
  return *topology;
}

std::size_t CountIf(const Topology& topology, NodeKind kind, SwitchRole role) {
  return static_cast<std::size_t>(
      std::count_if(topology.nodes().begin(), topology.nodes().end(),
                    [&](const Node& n) { return n.kind == kind && n.role == role; }));
}

std::size_t PathsBetweenNics(const Topology& topology, const char* from, const char* to) {
  PathTable paths(topology);
  const auto source = paths.FindAttachment(*topology.FindNode(from));
  const auto destination = paths.FindAttachment(*topology.FindNode(to));
  return paths.Between(source->leaf, destination->leaf).size();
}

TEST(BuildLeafSpine, JoinsEveryLeafToEverySpine) {
  const Topology topology =
      BuildOrDie(BuildLeafSpine({.spines = 3, .leaves = 5, .hosts_per_leaf = 2}));
  EXPECT_EQ(CountIf(topology, NodeKind::kCompute, SwitchRole::kNone), 10U);
  EXPECT_EQ(CountIf(topology, NodeKind::kSwitch, SwitchRole::kLeaf), 5U);
  EXPECT_EQ(CountIf(topology, NodeKind::kSwitch, SwitchRole::kSpine), 3U);
  EXPECT_EQ(topology.links().size(), 10U + 15U);
  EXPECT_EQ(PathsBetweenNics(topology, "h0", "h9"), 3U);
  EXPECT_TRUE(topology.FindLink("h9--leaf4").has_value());
  EXPECT_TRUE(topology.FindLink("leaf4--spine2").has_value());
}

TEST(BuildLeafSpine, GivesHostsANicOnEachOfTheirRails) {
  const Topology topology =
      BuildOrDie(BuildLeafSpine({.spines = 2, .leaves = 4, .hosts_per_leaf = 3, .rails = 2}));
  EXPECT_EQ(CountIf(topology, NodeKind::kCompute, SwitchRole::kNone), 12U);
  EXPECT_EQ(CountIf(topology, NodeKind::kNic, SwitchRole::kNone), 12U);
  EXPECT_EQ(topology.links().size(), 24U + 12U + 8U);
  for (const char* link :
       {"h0/gpu1--h0/nic1", "h0/gpu1--h0/nvswitch", "h0/nic0--leaf0", "h0/nic1--leaf1",
        "h2/nic1--leaf1", "h3/nic0--leaf2", "h5/nic1--leaf3"}) {
    EXPECT_TRUE(topology.FindLink(link).has_value()) << link;
  }
  const auto nic = topology.FindNic(*IpAddress::Parse("10.3.2.1"));
  ASSERT_TRUE(nic.has_value());
  EXPECT_EQ(topology.node(*nic).id, "h5/nic1");
  EXPECT_EQ(topology.node(*nic).host, "h5");
  EXPECT_TRUE(topology.node(*topology.FindNode("h5/gpu1")).addresses.empty());
  EXPECT_EQ(PathsBetweenNics(topology, "h0/nic1", "h3/nic1"), 2U);
  for (const int rails : {0, 3}) {
    EXPECT_FALSE(BuildLeafSpine({.leaves = 4, .rails = rails}).has_value());
    EXPECT_FALSE(BuildPods({.leaves_per_pod = 2, .rails = rails}).has_value());
  }
}

TEST(BuildLeafSpine, SeparatesPlanes) {
  const Topology topology = BuildOrDie(
      BuildLeafSpine({.spines = 4, .leaves = 8, .hosts_per_leaf = 1, .rails = 4, .planes = 2}));
  EXPECT_EQ(topology.links().size(), 8U * 2U + 8U + 8U * 2U);
  EXPECT_TRUE(topology.FindLink("leaf5--spine1").has_value());
  EXPECT_FALSE(topology.FindLink("leaf5--spine2").has_value());
  EXPECT_TRUE(topology.FindLink("leaf6--spine2").has_value());
  EXPECT_EQ(PathsBetweenNics(topology, "h0/nic1", "h1/nic0"), 2U);
  EXPECT_EQ(PathsBetweenNics(topology, "h0/nic1", "h1/nic2"), 0U);
  for (const int planes : {0, 2}) EXPECT_FALSE(BuildLeafSpine({.planes = planes}).has_value());
  EXPECT_FALSE(BuildLeafSpine({.rails = 2, .gpus = 3}).has_value());
  EXPECT_FALSE(BuildLeafSpine({.spines = 3, .rails = 2, .planes = 2}).has_value());
}

TEST(BuildPods, GivesHostsANicOnEachOfTheirRails) {
  const Topology topology = BuildOrDie(BuildPods({.hosts_per_leaf = 2, .rails = 2}));
  EXPECT_EQ(CountIf(topology, NodeKind::kCompute, SwitchRole::kNone), 8U);
  EXPECT_TRUE(topology.FindLink("h3/nic1--leaf3").has_value());
  EXPECT_EQ(PathsBetweenNics(topology, "h0/nic1", "h2/nic1"), 4U);
}

TEST(BuildLeafSpine, GivesTheAddressesOfTheLab) {
  const Topology topology =
      BuildOrDie(BuildLeafSpine({.spines = 4, .leaves = 4, .hosts_per_leaf = 4}));
  const auto host = topology.FindNic(*IpAddress::Parse("10.2.3.1"));
  ASSERT_TRUE(host.has_value());
  EXPECT_EQ(topology.node(*host).id, "h11");
  const auto leaf = topology.FindInterface(*IpAddress::Parse("10.2.3.0"));
  EXPECT_EQ(topology.node(leaf->node).id, "leaf2");
  const auto spine = topology.FindInterface(*IpAddress::Parse("172.16.2.7"));
  ASSERT_TRUE(spine.has_value());
  EXPECT_EQ(topology.node(spine->node).id, "spine3");
  EXPECT_EQ(topology.link(*spine->link).id, "leaf2--spine3");
  EXPECT_EQ(topology.node(topology.FindInterface(*IpAddress::Parse("172.16.2.6"))->node).id,
            "leaf2");
}

TEST(BuildLeafSpine, AddressesFabricsBeyondTheLabToo) {
  const Topology topology =
      BuildOrDie(BuildLeafSpine({.spines = 2, .leaves = 130, .hosts_per_leaf = 2}));
  EXPECT_EQ(topology.node(*topology.FindNic(*IpAddress::Parse("10.0.0.7"))).id, "h3");
  for (const Link& link : topology.links()) {
    EXPECT_FALSE(link.a_address.IsNone()) << link.id;
    EXPECT_FALSE(link.b_address.IsNone()) << link.id;
  }
}

TEST(BuildFatTree, HasTheCountsOfTheLiterature) {
  for (const int k : {2, 4, 8}) {
    const Topology topology = BuildOrDie(BuildFatTree({.k = k}));
    const auto half = static_cast<std::size_t>(k / 2);
    const auto pods = static_cast<std::size_t>(k);
    EXPECT_EQ(CountIf(topology, NodeKind::kCompute, SwitchRole::kNone), half * half * pods);
    EXPECT_EQ(CountIf(topology, NodeKind::kSwitch, SwitchRole::kLeaf), half * pods);
    EXPECT_EQ(CountIf(topology, NodeKind::kSwitch, SwitchRole::kSpine), half * pods);
    EXPECT_EQ(CountIf(topology, NodeKind::kSwitch, SwitchRole::kCore), half * half);
    EXPECT_EQ(topology.links().size(), 3 * half * half * pods);
    // Every switch has k ports.
    for (std::size_t i = 0; i < topology.nodes().size(); ++i) {
      if (topology.nodes()[i].kind != NodeKind::kSwitch) continue;
      EXPECT_EQ(topology.Outgoing(NodeId(static_cast<std::int32_t>(i))).size(), pods);
    }
  }
}

TEST(BuildFatTree, HasAQuarterOfKSquaredPathsBetweenPods) {
  const Topology topology = BuildOrDie(BuildFatTree({.k = 8}));
  EXPECT_EQ(PathsBetweenNics(topology, "h0", "h127"), 16U);
  EXPECT_EQ(PathsBetweenNics(topology, "h0", "h4"), 4U);  // same pod
  EXPECT_EQ(PathsBetweenNics(topology, "h0", "h1"), 1U);  // same leaf
}

TEST(BuildPods, JoinsOneSwitchOfEveryPodByEachPlane) {
  const Topology topology = BuildOrDie(BuildPods(
      {.pods = 3, .leaves_per_pod = 4, .aggs_per_pod = 2, .cores = 6, .hosts_per_leaf = 5}));
  EXPECT_EQ(CountIf(topology, NodeKind::kCompute, SwitchRole::kNone), 60U);
  EXPECT_EQ(CountIf(topology, NodeKind::kSwitch, SwitchRole::kSpine), 6U);
  EXPECT_EQ(topology.links().size(), 60U + 3U * 4U * 2U + 6U * 3U);
  EXPECT_EQ(PathsBetweenNics(topology, "h0", "h59"), 6U);
  EXPECT_EQ(PathsBetweenNics(topology, "h0", "h5"), 2U);
  EXPECT_TRUE(topology.FindLink("agg5--core3").has_value());
  EXPECT_FALSE(topology.FindLink("agg5--core2").has_value());
}

TEST(BuildRails, PutsNicRofEveryBoxOnLeafR) {
  const Topology topology = BuildOrDie(BuildRails({.boxes = 3, .rails = 4, .spines = 2}));
  PathTable paths(topology);
  for (int box = 0; box < 3; ++box) {
    for (int rail = 0; rail < 4; ++rail) {
      const auto nic = topology.FindNode(fmt::format("box{}/nic{}", box, rail));
      ASSERT_TRUE(nic.has_value());
      const auto attachment = paths.FindAttachment(*nic);
      ASSERT_TRUE(attachment.has_value());
      EXPECT_EQ(topology.node(attachment->leaf).id, fmt::format("leaf{}", rail));
      EXPECT_EQ(topology.node(*nic).addresses.size(), 1U);
    }
  }
  EXPECT_EQ(PathsBetweenNics(topology, "box0/nic0", "box1/nic1"), 2U);
  EXPECT_FALSE(paths.FindAttachment(*topology.FindNode("box0/gpu0")).has_value());
}

TEST(BuildRails, LeavesRailsApartWithoutSpines) {
  const Topology topology = BuildOrDie(BuildRails({.boxes = 2, .rails = 2, .spines = 0}));
  EXPECT_EQ(PathsBetweenNics(topology, "box0/nic0", "box1/nic1"), 0U);
  EXPECT_EQ(PathsBetweenNics(topology, "box0/nic0", "box1/nic0"), 1U);
}

TEST(Builders, RefuseWhatCannotBeBuilt) {
  EXPECT_FALSE(BuildLeafSpine({.spines = 0}).has_value());
  EXPECT_FALSE(BuildLeafSpine({.leaves = -1}).has_value());
  EXPECT_FALSE(BuildLeafSpine({.hosts_per_leaf = 65'537}).has_value());
  EXPECT_FALSE(BuildLeafSpine({.leaves = 60'000, .hosts_per_leaf = 2}).has_value());
  EXPECT_FALSE(BuildLeafSpine({.spines = 4'096, .leaves = 4'096}).has_value());
  EXPECT_FALSE(BuildLeafSpine({.host_rate = BitsPerSecond{0}}).has_value());
  for (const int k : {-2, 0, 3, 66, 1 << 30}) {
    EXPECT_FALSE(BuildFatTree({.k = k}).has_value()) << k;
  }
  EXPECT_FALSE(BuildPods({.pods = 0}).has_value());
  EXPECT_FALSE(BuildPods({.aggs_per_pod = 2, .cores = 3}).has_value());
  EXPECT_FALSE(BuildPods({.pods = 1 << 30, .leaves_per_pod = 1 << 30}).has_value());
  EXPECT_FALSE(BuildPods({.leaves_per_pod = 65'536}).has_value());
  EXPECT_FALSE(BuildRails({.boxes = 0}).has_value());
  EXPECT_FALSE(BuildRails({.rails = 0}).has_value());
  EXPECT_FALSE(BuildRails({.spines = -1}).has_value());
}

}  // namespace
}  // namespace espalier::fabric
