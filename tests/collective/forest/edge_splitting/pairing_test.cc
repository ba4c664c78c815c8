#include "collective/forest/edge_splitting/pairing.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "collective/forest/edge_splitting/elimination_order.h"
#include "tests/collective/forest/edge_splitting/random_split_graph.h"
#include "tests/collective/forest/reference_cases.h"
#include "tests/seeds.h"

namespace espalier::forest {
namespace {

// Checks that the splits use up exactly the capacity into and out of the node.
void ExpectComplete(const SplitGraph& graph, std::int32_t node, const std::vector<Split>& splits) {
  std::map<std::int32_t, std::int64_t> in;
  std::map<std::int32_t, std::int64_t> out;
  std::set<std::pair<std::int32_t, std::int32_t>> pairs;
  for (const Split& split : splits) {
    EXPECT_GT(split.amount, 0);
    EXPECT_TRUE(pairs.emplace(split.from, split.to).second) << "a pair twice";
    EXPECT_FALSE(split.from == kSource && split.to == kSource);
    in[split.from] += split.amount;
    out[split.to] += split.amount;
  }
  for (std::int32_t other = kSource; other < graph.flows().NodeCount(); ++other) {
    if (other == node) continue;
    EXPECT_EQ(in[other], graph.In(other, node)) << "from " << other;
    EXPECT_EQ(out[other], graph.Out(node, other)) << "to " << other;
  }
}

TEST(GuessPairing, UsesAllCapacityOfANode) {
  for (const std::uint64_t seed : SeedsToTry(1, 400)) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    auto made = MakeRandomSplitGraph(random);
    if (!made) continue;
    const std::vector<std::int32_t> component =
        ComputeComponents(made->graph.flows(), made->problem.rank_count);
    for (std::int32_t node = made->problem.rank_count; node < made->problem.node_count; ++node) {
      ExpectComplete(made->graph, node,
                     GuessSwitchPairing(made->problem, made->graph, node, component));
    }
    // Ranks are removed only after all switches.
    if (made->problem.node_count > made->problem.rank_count) continue;
    for (std::int32_t node = 0; node < made->problem.rank_count; ++node) {
      ExpectComplete(made->graph, node, GuessRankPairing(made->graph, node, component));
    }
  }
}

TEST(GuessSwitchPairing, RotatesWithinABoxAndBetweenBoxes) {
  Problem problem = MakeReferenceProblem("a100_2");
  const TreeCount count = *CountTrees(problem, *ComputeOptimality(problem));
  SplitGraph graph(problem, count);
  for (const std::vector<std::int32_t>& group : GroupSwitches(problem)) {
    const std::vector<std::int32_t> component =
        ComputeComponents(graph.flows(), problem.rank_count);
    for (const std::int32_t node : group) {
      const std::vector<Split> splits = GuessSwitchPairing(problem, graph, node, component);
      ExpectComplete(graph, node, splits);
      std::set<std::int32_t> boxes;
      for (const FlowGraph::Port& port : graph.flows().Ports(node)) {
        if (problem.IsRank(port.node)) boxes.insert(port.node / 8);
      }
      for (const Split& split : splits) {
        if (!problem.IsRank(split.from) || !problem.IsRank(split.to)) continue;
        const bool same_box = split.from / 8 == split.to / 8;
        EXPECT_EQ(same_box, boxes.size() == 1) << split.from << " to " << split.to;
        EXPECT_NE(split.from, split.to);
      }
      graph.Apply({node, splits});
    }
  }
}

// No route goes down to a leaf and up again: capacity from the trunk goes to ranks or is dropped.
TEST(GuessSwitchPairing, MakesNoValleys) {
  for (const std::string& name : {std::string("clos4x3s2"), std::string("clos4x4s4"),
                                  std::string("clos3x2s5"), std::string("clos4x8s2+deadlink")}) {
    SCOPED_TRACE(name);
    Problem problem = MakeReferenceProblem(name);
    const TreeCount count = *CountTrees(problem, *ComputeOptimality(problem));
    SplitGraph graph(problem, count);
    const std::vector<std::int32_t> leaves = GroupSwitches(problem).front();
    const std::vector<std::int32_t> component =
        ComputeComponents(graph.flows(), problem.rank_count);
    for (const std::int32_t leaf : leaves) {
      for (const Split& split : GuessSwitchPairing(problem, graph, leaf, component)) {
        if (problem.IsRank(split.from) || problem.IsRank(split.to)) continue;
        EXPECT_EQ(split.from, split.to) << "a valley at " << leaf;
      }
    }
  }
}

}  // namespace
}  // namespace espalier::forest
