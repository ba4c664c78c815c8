#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <vector>

#include "collective/forest/planner/planner.h"
#include "collective/forest/verifier/verifier.h"
#include "collective/synthesis/schedules/bfb.h"
#include "collective/synthesis/schedules/verifier.h"
#include "tests/collective/synthesis/random_digraph.h"
#include "tests/seeds.h"

namespace espalier::synthesis {
namespace {

using fabric::Topology;
using forest::Rank;
using forest::TreeSchedule;

constexpr std::int64_t kGigabit = 1'000'000'000;

std::size_t At(std::int64_t index) { return static_cast<std::size_t>(index); }

Topology MakeTopology(const Digraph& graph) {
  auto topology = Topology::Build(WriteNetwork("net", graph, BitsPerSecond{kGigabit}));
  EXPECT_TRUE(topology);
  return std::move(*topology);
}

// The trees of a forest as a schedule of steps: an edge at depth t sends the tree's part in step t.
Schedule AsSchedule(const TreeSchedule& trees) {
  const forest::Forest& forest = trees.forests.front();
  Schedule schedule{.collective = Collective::kAllgather,
                    .node_count = forest.rank_count,
                    .chunks = trees.trees_per_weight,
                    .steps = forest::ComputeHeights(forest).max,
                    .reduce_steps = 0,
                    .sends = {}};
  std::vector<std::int64_t> next(At(forest.rank_count), 0);
  for (std::size_t c = 0; c < forest.classes.size(); ++c) {
    const auto [root, count] = forest.classes[c];
    const auto parents = forest.Parents(c);
    const std::int64_t begin = next[root];
    next[root] += count;
    for (std::int32_t node = 0; node < forest.rank_count; ++node) {
      std::int32_t depth = 0;
      for (Rank at = static_cast<Rank>(node); at != root; at = parents[at]) ++depth;
      if (depth == 0) continue;
      schedule.sends.push_back({root, parents[At(node)], node, depth,
                                static_cast<std::int32_t>(begin),
                                static_cast<std::int32_t>(begin + count)});
    }
  }
  return schedule;
}

// A BFB allgather as a forest: each chunk of each shard travels along a tree. `bound` gives what
// does not depend on the trees.
TreeSchedule AsForest(const Digraph& graph, const Schedule& schedule, const TreeSchedule& bound) {
  TreeSchedule trees = bound;
  trees.trees_per_weight = schedule.chunks;
  forest::Forest forest;
  forest.rank_count = schedule.node_count;
  forest.trees_per_weight = schedule.chunks;
  const std::size_t nodes = At(schedule.node_count);
  std::vector<Rank> parents(nodes * At(schedule.chunks) * nodes, forest::kNoRank);
  std::map<std::pair<std::int32_t, std::int32_t>, std::int64_t> uses;
  for (const Send& send : schedule.sends) {
    for (std::int32_t chunk = send.begin; chunk < send.end; ++chunk) {
      const std::size_t tree = At(send.source * schedule.chunks + chunk);
      parents[tree * nodes + At(send.to)] = static_cast<Rank>(send.from);
    }
    uses[{send.from, send.to}] += send.end - send.begin;
  }
  for (std::int32_t root = 0; root < schedule.node_count; ++root) {
    for (std::int64_t chunk = 0; chunk < schedule.chunks; ++chunk) {
      forest.classes.push_back({static_cast<Rank>(root), 1});
    }
  }
  forest.parents = parents;
  trees.phases.front().channels.clear();
  Rational scale;
  for (const auto& [arc, count] : uses) {
    forest.routes.AddArc(static_cast<Rank>(arc.first), static_cast<Rank>(arc.second));
    const auto channel = static_cast<std::int32_t>(trees.phases.front().channels.size());
    trees.phases.front().channels.push_back(
        {fabric::NodeId(arc.first), fabric::NodeId(arc.second)});
    forest.routes.AddRoute(count, std::vector<std::int32_t>{channel});
    const std::int64_t capacity = graph.arcs()[At(graph.Find(arc.first, arc.second))].capacity;
    scale = std::max(scale, Rational(count, capacity));
  }
  forest.routes.Index(forest.rank_count);
  trees.tree_gbps = Rational(scale.denominator(), scale.numerator());
  trees.inverse_rate = *Rational::Quotient(scale, Rational(schedule.chunks, 1));
  forest.scale = scale;
  forest.inverse_rate = trees.inverse_rate;
  trees.forests = {std::move(forest)};
  return trees;
}

void ExpectAgreement(std::uint64_t seed) {
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  const Digraph graph = MakeRandomRegular(static_cast<std::int32_t>(3 + seed % 10),
                                          2 + static_cast<int>(seed % 3), random);
  const Topology topology = MakeTopology(graph);
  const auto made = forest::MakeTreeSchedule(topology, {});
  ASSERT_TRUE(made) << made.error().message;
  const auto bfb = MakeBfbAllgather(graph);
  ASSERT_TRUE(bfb);
  const auto bfb_cost = VerifySchedule(graph, *bfb);
  ASSERT_TRUE(bfb_cost) << bfb_cost.error().message;

  // T_B* <= T_B of the forest <= T_B of BFB.
  const auto forest_t_b =
      Rational::Product(made->schedule.inverse_rate, Rational(graph.degree(), graph.node_count()));
  EXPECT_LE(Rational(graph.node_count() - 1, graph.node_count()), *forest_t_b);
  EXPECT_LE(*forest_t_b, bfb_cost->t_b);

  // The verifier of schedules accepts the forest, whose steps take at least its time.
  const Schedule steps = AsSchedule(made->schedule);
  const auto forest_cost = VerifySchedule(graph, steps);
  ASSERT_TRUE(forest_cost) << forest_cost.error().message;
  EXPECT_EQ(forest_cost->duplicate_chunks, 0);
  EXPECT_GE(forest_cost->t_b, *forest_t_b);
  Schedule broken = steps;
  broken.sends.erase(broken.sends.begin() + static_cast<std::ptrdiff_t>(seed % steps.sends.size()));
  EXPECT_FALSE(VerifySchedule(graph, broken));

  // The verifier of forests accepts the BFB schedule, without its barriers.
  TreeSchedule trees = AsForest(graph, *bfb, made->schedule);
  const auto found = forest::VerifySchedule(topology, trees);
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(found->heights.max, bfb_cost->steps);
  EXPECT_GE(trees.inverse_rate, made->schedule.inverse_rate);
  Rank& parent = trees.forests[0].parents[1];  // of node 1 in the first tree of node 0
  parent = 1;
  EXPECT_FALSE(forest::VerifySchedule(topology, trees));
}

TEST(ForestComparison, HoldsOn200RandomDigraphs) {
  for (const std::uint64_t seed : SeedsToTry(1, 200)) ExpectAgreement(seed);
}

}  // namespace
}  // namespace espalier::synthesis
