#include "collective/forest/files/forest_summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "common/fabric/accelerator_builders.h"
#include "tests/collective/forest/files/small_schedule.h"

namespace espalier::forest {
namespace {

using fabric::NodeId;
using testing::HasSubstr;

// Close to the loads of MakeSmallSchedule, but one channel is unused.
Findings MakeSmallFindings() {
  constexpr std::int64_t kTen = 10'000'000'000;
  Findings findings;
  findings.heights = {2, 1.25};
  findings.edges = 5;
  findings.loads = {{{3, kTen}, {2, kTen}, {2, 2 * kTen}, {0, kTen}},
                    {{4, kTen}, {2, kTen}, {2, 2 * kTen}}};
  return findings;
}

TEST(SummariseForest, FillsAPage) {
  EXPECT_EQ(SummariseForest(MakeSmallTopology(), MakeSmallSchedule(), MakeSmallFindings()),
            R"(collective           allreduce over 3 ranks, on a share of the links
method               general
bound                5 Gbit/s (inverse rate 1/10)
bottleneck cut       out of 1 rank: a
attained             2.5 Gbit/s (inverse rate 1/5), 50 % of the bound
trees                2 per root and unit of weight, 2.5 Gbit/s each, in 3 classes
height               2 at most, 1.25 on average
edges                5 between ranks, 3 of them on paths that ECMP cannot take

links (each direction)                  Gbit/s   count   unused  mean use  most used
COMPUTE to SWITCH                           10       2        0    75.0 %    100.0 %
COMPUTE to SWITCH                           20       1        0    25.0 %     25.0 %
SWITCH to COMPUTE                           10       3        1    41.7 %     75.0 %
SWITCH to COMPUTE                           20       1        0    25.0 %     25.0 %
)");
}

// Names the smaller side of the cut, and into it if both are equal; eight ranks at most.
TEST(SummariseForest, NamesTheSmallerSideOfTheCut) {
  const auto topology = fabric::Topology::Build(*fabric::BuildRing({.nodes = 20}));
  TreeSchedule schedule = MakeSmallSchedule();
  schedule.phases.clear();
  schedule.ranks.clear();
  for (int r = 0; r < 20; ++r) schedule.ranks.emplace_back(r);
  struct Case {
    int inside;
    std::string text;
  };
  for (const Case& c :
       std::vector<Case>{{9, "out of 9 ranks: n0, n1, n2, n3, n4, n5, n6, n7 and 1 more\n"},
                         {10, "into 10 ranks: n10, n11, n12, n13, n14, n15, n16, n17 and 2 more\n"},
                         {12, "into 8 ranks: n12, n13, n14, n15, n16, n17, n18, n19\n"},
                         {19, "into 1 rank: n19\n"}}) {
    schedule.cut.clear();
    for (int r = 0; r < c.inside; ++r) schedule.cut.emplace_back(r);
    EXPECT_THAT(SummariseForest(*topology, schedule, {}), HasSubstr("cut       " + c.text));
  }
}

// Links between nodes of the same kinds and with the same rate are one class.
TEST(SavingsByClass, AddsUpTheLinksOfEachClass) {
  fabric::TopologySpec spec = MakeSmallTopology().Spec();
  spec.nodes[1].kind = fabric::NodeKind::kNic;
  spec.nodes[3].role = fabric::SwitchRole::kLeaf;
  fabric::Node& inner = spec.nodes.emplace_back();
  inner.id = "inner";
  inner.kind = fabric::NodeKind::kSwitch;
  inner.host = "box";
  const auto topology = fabric::Topology::Build(std::move(spec));
  ASSERT_TRUE(topology.has_value());
  TreeSchedule schedule;
  const NodeId compute(0);
  const NodeId nic(1);
  const NodeId leaf(3);
  const NodeId box(4);
  schedule.phases = {{0, false, {{compute, leaf}, {compute, leaf}, {compute, leaf}, {leaf, nic}}},
                     {0, true, {{compute, leaf}, {compute, box}}}};
  Findings findings;
  constexpr std::int64_t kOne = 1'000'000'000;
  findings.loads = {{{5, kOne}, {0, kOne}, {7, 2 * kOne}, {8, kOne}}, {{4, kOne}, {0, kOne}}};
  const auto savings = SavingsByClass(*topology, schedule, findings, {{5, 0, 3, 6}, {1, 0}});
  EXPECT_EQ(SummariseSavings(savings), R"(
traffic with copies in switches          Gbit/s   before    after     saved
COMPUTE to LEAF                               1        9        6    33.3 %
COMPUTE to LEAF                               2        7        3    57.1 %
COMPUTE to inner SWITCH                       1        0        0     0.0 %
LEAF to NIC                                   1        8        6    25.0 %
)");
}

TEST(FormatTreeAsDot, DrawsTheEdgesInTheDirectionOfTheData) {
  const fabric::Topology topology = MakeSmallTopology();
  TreeSchedule schedule = MakeSmallSchedule();
  EXPECT_EQ(*FormatTreeAsDot(topology, schedule, 1),
            "digraph tree1 {\n"
            "  // 1 of 2 trees of this root\n"
            "  \"a\" [shape=box]\n"
            "  \"b\" -> \"a\" [label=\"s\"]\n"
            "  \"c\" -> \"b\" [label=\"s\"]\n"
            "}\n");
  const auto none = FormatTreeAsDot(topology, schedule, 2);
  EXPECT_EQ(none.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(none.error().message, "there is no tree 2: the classes of trees are 0 to 1");
  schedule.phases.erase(schedule.phases.begin());
  EXPECT_EQ(*FormatTreeAsDot(topology, schedule, 0),
            "digraph tree0 {\n"
            "  // 2 of 2 trees of this root\n"
            "  \"a\" [shape=box]\n"
            "  \"a\" -> \"b\" [label=\"s\"]\n"
            "  \"a\" -> \"c\" [label=\"s\"]\n"
            "}\n");
}

// A class whose trees take different routes is drawn once; all switches of a route are named, from
// parent to child.
TEST(FormatTreeAsDot, QuotesNamesAndDrawsAClassOnce) {
  fabric::TopologySpec spec = MakeSmallTopology().Spec();
  spec.links.clear();
  spec.nodes[1].id = "p\"";
  spec.nodes[1].kind = spec.nodes[2].kind = fabric::NodeKind::kSwitch;
  spec.nodes[2].id = "q\\";
  spec.nodes[3].kind = fabric::NodeKind::kCompute;
  spec.nodes[3].multicast = spec.nodes[3].reduce = false;
  const auto topology = fabric::Topology::Build(std::move(spec));
  ASSERT_TRUE(topology.has_value());
  const NodeId a(0);
  const NodeId p(1);
  const NodeId q(2);
  const NodeId d(3);
  for (const bool reversed : {false, true}) {
    TreeSchedule schedule;
    schedule.ranks = {a, d};
    schedule.trees_per_weight = 2;
    Forest& forest = schedule.forests.emplace_back();
    forest.rank_count = 2;
    forest.classes = {{0, 2}};
    forest.parents = {kNoRank, 0};
    forest.routes.AddArc(0, 1);
    forest.routes.AddRoute(1, std::vector{0, 1, 2});
    forest.routes.AddRoute(1, std::vector{0, 3});
    forest.routes.Index(2);
    schedule.phases.push_back({0, reversed, {{a, p}, {p, q}, {q, d}, {p, d}}});
    if (reversed) {
      for (Channel& channel : schedule.phases[0].channels) std::swap(channel.from, channel.to);
    }
    EXPECT_EQ(*FormatTreeAsDot(*topology, schedule, 0),
              std::string("digraph tree0 {\n  // 2 of 2 trees of this root\n"
                          "  \"a\" [shape=box]\n") +
                  (reversed ? "  \"s\" -> \"a\"" : "  \"a\" -> \"s\"") +
                  " [label=\"p\\\"\\nq\\\\\"]\n}\n");
  }
}

}  // namespace
}  // namespace espalier::forest
