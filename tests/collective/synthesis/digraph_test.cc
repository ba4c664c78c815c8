#include "collective/synthesis/graphs/digraph.h"

#include <gtest/gtest.h>

#include "collective/synthesis/graphs/families.h"
#include "common/fabric/accelerator_builders.h"
#include "common/fabric/builders.h"

namespace espalier::synthesis {
namespace {

using fabric::Topology;

TEST(Digraph, MergesParallelArcsAndCountsSelfLoopsInTheDegree) {
  const Digraph graph(3, {{0, 1, 1}, {0, 1, 2}, {1, 2, 3}, {2, 0, 2}, {2, 2, 1}, {1, 1, 1}});
  EXPECT_EQ(graph.arcs().size(), 3U);
  EXPECT_EQ(graph.arcs()[static_cast<std::size_t>(graph.Find(0, 1))].capacity, 3);
  EXPECT_EQ(graph.Find(1, 0), -1);
  EXPECT_EQ(graph.degree(), 4);  // node 1: 3 from node 0 and its loop
  EXPECT_TRUE(graph.has_self_loops());
  EXPECT_FALSE(graph.is_regular());
  EXPECT_FALSE(graph.IsSimple());
  EXPECT_FALSE(graph.IsBidirectional());
}

TEST(Digraph, KeepsDegreeAndLoopsWhenTransposed) {
  const Digraph graph(3, {{0, 1, 1}, {1, 2, 1}, {2, 0, 1}, {0, 0, 1}, {1, 1, 1}, {2, 2, 1}});
  const Digraph transpose = graph.Transpose();
  EXPECT_GE(transpose.Find(1, 0), 0);
  EXPECT_EQ(transpose.Find(0, 1), -1);
  EXPECT_EQ(transpose.degree(), 2);
  EXPECT_TRUE(transpose.is_regular());
  EXPECT_EQ(transpose.Transpose(), graph);
}

TEST(Digraph, NamesTwoNodesWithoutAPath) {
  const Digraph one_way(3, {{0, 1, 1}, {1, 0, 1}, {0, 2, 1}});
  const auto connected = CheckConnected(one_way);
  ASSERT_FALSE(connected);
  EXPECT_EQ(connected.error().code, ErrorCode::kFailedPrecondition);
  EXPECT_EQ(connected.error().message, "node 2 cannot reach node 0 (connect the network)");
  const auto back = CheckConnected(one_way.Transpose());
  ASSERT_FALSE(back);
  EXPECT_EQ(back.error().message, "node 0 cannot reach node 2 (connect the network)");
}

// Translations move node 0 everywhere, commute, and keep arcs.
TEST(Translations, AreSymmetriesOfTheNetwork) {
  const Digraph torus = BuildTorusNetwork(std::vector<std::int64_t>{3, 4, 2})->graph;
  const auto found = Translations::Find(torus);
  ASSERT_TRUE(found);
  for (std::int32_t by = 0; by < torus.node_count(); ++by) {
    EXPECT_EQ(found->Move(0, by), by);
    EXPECT_EQ(found->Move(by, found->Negate(by)), 0);
    for (const Arc& arc : torus.arcs()) {
      EXPECT_GE(torus.Find(found->Move(arc.tail, by), found->Move(arc.head, by)), 0);
      EXPECT_EQ(found->Move(arc.tail, by), found->Move(by, arc.tail));
    }
  }
}

TEST(Translations, AreNotFoundWhereThereAreNone) {
  EXPECT_FALSE(Translations::Find(BuildGeneralizedKautz(2, 9)->graph));
  EXPECT_FALSE(Translations::Find(Digraph(3, {{0, 1, 1}, {1, 2, 1}, {2, 0, 2}})));
  EXPECT_TRUE(Translations::Find(Digraph(3, {{0, 1, 1}, {1, 2, 1}, {2, 0, 1}})));
  EXPECT_FALSE(Translations::Find(Digraph(1, {})));
}

TEST(DirectNetwork, IsReadFromTheTopologyThatWasWritten) {
  const Digraph graph(3, {{0, 1, 2}, {1, 0, 1}, {1, 2, 1}, {2, 1, 1}, {2, 0, 3}});
  const auto topology = Topology::Build(WriteNetwork("net", graph, BitsPerSecond{7'000}));
  ASSERT_TRUE(topology);
  const auto read = ReadNetwork(*topology);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->graph, graph);
  EXPECT_EQ(read->unit.value, 7'000);
}

TEST(DirectNetwork, CountsBandwidthsInTheirCommonUnitAndLeavesOutDeadLinks) {
  fabric::TopologySpec spec = *fabric::BuildRing({.nodes = 4});
  spec.links[0].rate = BitsPerSecond{1'500'000'000};
  spec.links[1].state = fabric::LinkState::kDown;
  const auto read = ReadNetwork(*Topology::Build(spec));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->unit.value, 500'000'000);
  EXPECT_EQ(read->graph.arcs().size(), 6U);
  EXPECT_EQ(read->graph.arcs()[static_cast<std::size_t>(read->graph.Find(1, 0))].capacity, 3);
  EXPECT_EQ(read->graph.Find(1, 2), -1);
}

TEST(DirectNetwork, RefusesSwitchesTooFewNodesAndBandwidthsWithoutACommonUnit) {
  const auto fabric = Topology::Build(*fabric::BuildLeafSpine({.spines = 1, .leaves = 1}));
  const auto with_switch = ReadNetwork(*fabric);
  ASSERT_FALSE(with_switch);
  EXPECT_EQ(with_switch.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(with_switch.error().message.find("is a SWITCH"), std::string::npos);

  fabric::TopologySpec one{.name = "one", .version = 1, .nodes = {}, .links = {}};
  one.nodes.emplace_back().id = "n0";
  EXPECT_EQ(ReadNetwork(*Topology::Build(one)).error().message,
            "the topology has 1 nodes (give 2 to 16384)");

  fabric::TopologySpec spec = *fabric::BuildRing({.nodes = 4});
  spec.links[0].rate = BitsPerSecond{9'000'000'000'000'000'001};
  const auto uneven = ReadNetwork(*Topology::Build(spec));
  ASSERT_FALSE(uneven);
  EXPECT_NE(uneven.error().message.find("round the bandwidths"), std::string::npos);
}

}  // namespace
}  // namespace espalier::synthesis
