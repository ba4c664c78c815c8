#include "common/fabric/accelerator_builders.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace espalier::fabric {
namespace {

constexpr BitsPerSecond kUnit{1'000'000'000};

Topology BuildOrDie(Result<TopologySpec> spec) {
  EXPECT_TRUE(spec.has_value()) << spec.error().message;
  auto topology = Topology::Build(*spec);
  EXPECT_TRUE(topology.has_value()) << topology.error().error.message;
  return *topology;
}

std::int64_t CountKind(const Topology& topology, NodeKind kind) {
  return std::ranges::count(topology.nodes(), kind, &Node::kind);
}

// Counts directed arcs like the literature; parallel links between two nodes count once.
std::size_t Arcs(const Topology& topology) {
  std::size_t arcs = 0;
  for (const Link& link : topology.links()) arcs += link.directed ? 1 : 2;
  return arcs;
}

// In Gbit/s.
std::int64_t RateOf(const Topology& topology, const std::string& link) {
  const auto id = topology.FindLink(link);
  EXPECT_TRUE(id.has_value()) << link;
  return topology.link(*id).rate.value / kUnit.value;
}

TEST(BuildA100, HasTheCountsOfTheReference) {
  struct Case {
    int boxes;
    std::int64_t compute;
    std::size_t nodes;
    std::size_t arcs;
  };
  for (const Case& c : {Case{1, 8, 9, 16}, Case{2, 16, 36, 96}, Case{4, 32, 70, 192}}) {
    const Topology topology = BuildOrDie(BuildA100({.boxes = c.boxes}));
    EXPECT_EQ(CountKind(topology, NodeKind::kCompute), c.compute);
    EXPECT_EQ(topology.nodes().size(), c.nodes);
    EXPECT_EQ(Arcs(topology), c.arcs);
  }
}

TEST(BuildA100, JoinsGpusByTwoRailsOfSwitches) {
  const Topology topology = BuildOrDie(BuildA100({.boxes = 2}));
  EXPECT_EQ(RateOf(topology, "box1/gpu7--box1/nvswitch"), 2'400);
  EXPECT_EQ(RateOf(topology, "box1/gpu7--box1/nic7"), 200);
  EXPECT_EQ(RateOf(topology, "box1/nic7--ib1"), 200);
  EXPECT_EQ(RateOf(topology, "box0/nic4--ib0"), 200);
  EXPECT_EQ(topology.FindNic(*IpAddress::Parse("10.0.0.31")), topology.FindNode("box1/nic7"));
}

TEST(BuildH100, JoinsGpusToOneSwitch) {
  const Topology topology = BuildOrDie(BuildH100({.boxes = 2}));
  EXPECT_EQ(topology.nodes().size(), 19U);
  EXPECT_EQ(Arcs(topology), 64U);
  EXPECT_EQ(RateOf(topology, "box0/gpu0--box0/nvswitch"), 3'600);
  EXPECT_EQ(RateOf(topology, "box1/gpu7--ib0"), 400);
  EXPECT_TRUE(topology.IsFlowEndpoint(*topology.FindNode("box1/gpu7")));
  EXPECT_EQ(BuildOrDie(BuildH100({.boxes = 1})).nodes().size(), 9U);
}

TEST(BuildMi250, HasTheCountsOfTheReference) {
  const Topology one = BuildOrDie(BuildMi250({.boxes = 1}));
  EXPECT_EQ(one.nodes().size(), 16U);
  EXPECT_EQ(Arcs(one), 56U);
  EXPECT_EQ(RateOf(one, "box0/gpu14--box0/gpu15"), 1'600);
  const Topology two = BuildOrDie(BuildMi250({.boxes = 2}));
  EXPECT_EQ(two.nodes().size(), 33U);
  EXPECT_EQ(Arcs(two), 176U);
  EXPECT_EQ(RateOf(two, "box1/gpu3--ib0"), 128);
  const Topology half = BuildOrDie(BuildMi250({.boxes = 2, .half = true}));
  EXPECT_EQ(half.nodes().size(), 17U);
  EXPECT_EQ(Arcs(half), 76U);
}

TEST(BuildMi250, GivesEveryGpuSevenLanes) {
  const Topology topology = BuildOrDie(BuildMi250({.boxes = 1}));
  std::vector<std::int64_t> gbps(topology.nodes().size());
  for (const Link& link : topology.links()) {
    gbps[link.a.Index()] += link.rate.value / kUnit.value;
    gbps[link.b.Index()] += link.rate.value / kUnit.value;
  }
  for (const std::int64_t sum : gbps) EXPECT_EQ(sum, 7 * 400);
}

TEST(BuildRing, GoesRoundOnceOrBothWays) {
  const Topology both = BuildOrDie(BuildRing({.nodes = 8}));
  EXPECT_EQ(Arcs(both), 16U);
  EXPECT_TRUE(both.FindLink("n7--n0").has_value());
  const Topology one = BuildOrDie(BuildRing({.nodes = 8, .directed = true}));
  EXPECT_EQ(Arcs(one), 8U);
}

TEST(BuildTorus, JoinsBothNeighboursInEveryDimension) {
  const Topology square = BuildOrDie(BuildTorus(std::vector{4, 4}, kUnit));
  EXPECT_EQ(Arcs(square), 64U);
  EXPECT_TRUE(square.FindLink("n0--n1").has_value());
  EXPECT_TRUE(square.FindLink("n3--n0").has_value());
  EXPECT_TRUE(square.FindLink("n0--n4").has_value());
  EXPECT_TRUE(square.FindLink("n12--n0").has_value());
  EXPECT_EQ(Arcs(BuildOrDie(BuildTorus(std::vector{3, 3, 3}, kUnit))), 162U);
  const Topology flat = BuildOrDie(BuildTorus(std::vector{2, 3}, kUnit));
  EXPECT_EQ(Arcs(flat), 24U);
  EXPECT_EQ(flat.Outgoing(NodeId(0)).size(), 4U);
}

TEST(BuildHypercube, JoinsNodesThatDifferInOneBit) {
  const Topology cube = BuildOrDie(BuildHypercube(3, kUnit));
  EXPECT_EQ(Arcs(cube), 24U);
  EXPECT_TRUE(cube.FindLink("n5--n7").has_value());
  EXPECT_FALSE(cube.FindLink("n5--n6").has_value());
}

TEST(AcceleratorBuilders, RefuseWhatCannotBeBuilt) {
  EXPECT_FALSE(BuildA100({.boxes = 0}).has_value());
  EXPECT_FALSE(BuildA100({.boxes = 5'000}).has_value());
  EXPECT_FALSE(BuildH100({.boxes = -1}).has_value());
  EXPECT_FALSE(BuildMi250({.boxes = 1 << 30}).has_value());
  EXPECT_FALSE(BuildRing({.nodes = 1}).has_value());
  EXPECT_FALSE(BuildRing({.nodes = 4, .rate = BitsPerSecond{0}}).has_value());
  EXPECT_FALSE(BuildTorus({}, kUnit).has_value());
  EXPECT_FALSE(BuildTorus(std::vector{4, 1}, kUnit).has_value());
  EXPECT_FALSE(BuildTorus(std::vector(40, 65'536), kUnit).has_value());
  EXPECT_FALSE(BuildHypercube(0, kUnit).has_value());
  EXPECT_FALSE(BuildHypercube(17, kUnit).has_value());
  EXPECT_FALSE(BuildHypercube(1 << 30, kUnit).has_value());
}

}  // namespace
}  // namespace espalier::fabric
