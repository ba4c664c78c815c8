#include "collective/algorithms/forest_program.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>
#include <string>
#include <tuple>

#include "collective/forest/planner/planner.h"
#include "collective/forest/problem/build_problem.h"
#include "collective/program/verifier/verifier.h"
#include "common/fabric/accelerator_builders.h"
#include "common/fabric/builders.h"
#include "tests/collective/forest/random_problem.h"
#include "tests/collective/forest/reference_cases.h"
#include "tests/collective/program/reference_run.h"

namespace espalier::algorithms {
namespace {

using fabric::NodeId;
using fabric::Topology;
using forest::Collective;
using forest::ScheduleOptions;
using forest::TreeSchedule;

Topology BuildOrDie(Result<fabric::TopologySpec> spec) {
  EXPECT_TRUE(spec.has_value());
  return forest::BuildTopology(*spec);
}

// Checks that no link carries more than its capacity in the time of the schedule, exactly: chunks
// on a link x trees per chunk x rate of a tree.
void ExpectWithinCapacity(const Topology& topology, const ScheduleOptions& options,
                          const TreeSchedule& plan, const ForestProgram& made) {
  std::map<std::tuple<int, int, int>, const ConnectionPath*> paths;
  for (const ConnectionPath& path : made.paths) {
    EXPECT_EQ(path.nodes.front(), plan.ranks[static_cast<std::size_t>(path.from)]);
    EXPECT_EQ(path.nodes.back(), plan.ranks[static_cast<std::size_t>(path.to)]);
    paths[{path.from, path.to, path.channel}] = &path;
  }
  std::map<std::pair<NodeId, NodeId>, std::int64_t> chunks;
  for (std::size_t rank = 0; rank < made.program.ranks.size(); ++rank) {
    for (const auto& block : made.program.ranks[rank].blocks) {
      std::int64_t sent = 0;
      for (const auto& step : block.steps) sent += Sends(step.op) ? step.count : 0;
      if (sent == 0) continue;
      const auto path = paths.find({static_cast<int>(rank), block.send_peer, block.channel});
      ASSERT_NE(path, paths.end());
      const auto& nodes = path->second->nodes;
      for (std::size_t i = 1; i < nodes.size(); ++i) chunks[{nodes[i - 1], nodes[i]}] += sent;
    }
  }
  const auto problem = forest::BuildProblem(topology, options.problem);
  ASSERT_TRUE(problem.has_value());
  std::map<std::pair<NodeId, NodeId>, forest::Int128> capacity;
  for (const forest::Arc& arc : problem->arcs) {
    capacity[{problem->topology_node[static_cast<std::size_t>(arc.tail)],
              problem->topology_node[static_cast<std::size_t>(arc.head)]}] =
        forest::Int128{arc.capacity} * problem->unit.value;
  }
  for (const auto& [link, count] : chunks) {
    ASSERT_TRUE(capacity.contains(link));
    EXPECT_LE(
        forest::Int128{count} * made.trees_per_chunk * 1'000'000'000 * plan.tree_gbps.numerator() <=
            capacity[link] * plan.tree_gbps.denominator(),
        true)
        << count << " chunks";
  }
}

// Between two ranks, a path and its reverse have one channel, which no other path has.
void ExpectAChannelForEachPath(const ForestProgram& made) {
  std::map<std::tuple<int, int, int>, std::vector<NodeId>> nodes;  // from the lower rank
  std::map<std::tuple<int, int, std::vector<NodeId>>, int> channels;
  for (const ConnectionPath& path : made.paths) {
    std::vector<NodeId> way = path.nodes;
    if (path.from > path.to) std::ranges::reverse(way);
    const auto [low, high] = std::minmax(path.from, path.to);
    EXPECT_EQ(nodes.emplace(std::tuple(low, high, path.channel), way).first->second, way);
    EXPECT_EQ(channels.emplace(std::tuple(low, high, way), path.channel).first->second,
              path.channel);
  }
}

void ExpectRightProgram(const Topology& topology, const ScheduleOptions& options,
                        std::mt19937_64& random) {
  const auto plan = MakeTreeSchedule(topology, options);
  if (!plan) {
    EXPECT_EQ(plan.error().code, ErrorCode::kFailedPrecondition) << plan.error().message;
    return;
  }
  const auto made = MakeForestProgram("forest", plan->schedule);
  ASSERT_TRUE(made.has_value()) << made.error().message;
  ExpectAChannelForEachPath(*made);
  const program::Verdict verdict = Verify(made->program);
  ASSERT_FALSE(verdict.violation) << verdict.violation->message;
  EXPECT_TRUE(verdict.same_bits);
  EXPECT_TRUE(verdict.has_postcondition);
  // Every rank receives or sends all but its own share, in every phase.
  const program::Cost cost = MeasureCost(made->program);
  const auto ranks = static_cast<std::int64_t>(plan->schedule.ranks.size());
  const auto passes = static_cast<std::int64_t>(plan->schedule.phases.size());
  EXPECT_EQ(cost.total_chunks_sent, passes * (ranks - 1) * made->program.collective.chunks);
  if (passes == 1) ExpectWithinCapacity(topology, options, plan->schedule, *made);
  constexpr int kMaxSteps = 400;  // small enough for the plain interpreter
  if (CountSteps(made->program) > kMaxSteps) return;
  for (const bool in_place : {true, false}) {
    program::ReferenceRun run(made->program, in_place, 2, random);
    EXPECT_TRUE(run.Run() && run.IsRight());
  }
}

TEST(ForestProgram, IsRightForEveryCollectiveOnRandomGraphs) {
  std::mt19937_64 random(77);
  for (int round = 0; round < 60; ++round) {
    SCOPED_TRACE(round);
    const Topology topology = forest::BuildTopology(
        forest::MakeRandomGraph({.max_ranks = 6, .max_switches = 3, .max_rate = 12}, random));
    std::vector<NodeId> ranks;
    for (std::size_t i = 0; i < topology.nodes().size(); ++i) {
      const NodeId node{static_cast<std::int32_t>(i)};
      if (topology.node(node).kind == fabric::NodeKind::kCompute) ranks.push_back(node);
    }
    for (const Collective collective :
         {Collective::kAllgather, Collective::kReduceScatter, Collective::kAllreduce,
          Collective::kBroadcast, Collective::kReduce}) {
      SCOPED_TRACE(CollectiveName(collective));
      ScheduleOptions options{.collective = collective};
      if (collective == Collective::kBroadcast || collective == Collective::kReduce) {
        options.root = ranks[random() % ranks.size()];
      } else if (collective != Collective::kAllgather) {
        options.problem.weights = forest::MakeRandomWeights(ranks.size(), random);
      }
      ExpectRightProgram(topology, options, random);
    }
  }
}

TEST(ForestProgram, IsRightOnMachinesAndFabrics) {
  std::mt19937_64 random(78);
  const Topology boxes = BuildOrDie(fabric::BuildA100({2}));
  const Topology fabric_of_16 =
      BuildOrDie(fabric::BuildLeafSpine({.spines = 4, .leaves = 4, .hosts_per_leaf = 4}));
  for (const Topology* topology : {&boxes, &fabric_of_16}) {
    for (const Collective collective :
         {Collective::kAllgather, Collective::kReduceScatter, Collective::kAllreduce}) {
      ExpectRightProgram(*topology, {.collective = collective}, random);
    }
  }
}

TEST(ForestProgram, HasAConnectionForEveryPath) {
  const Topology topology =
      BuildOrDie(fabric::BuildLeafSpine({.spines = 4, .leaves = 4, .hosts_per_leaf = 4}));
  const auto plan = forest::MakeTreeSchedule(topology, {.collective = Collective::kAllreduce});
  ASSERT_TRUE(plan.has_value()) << plan.error().message;
  const auto made = MakeForestProgram("fabric", plan->schedule);
  ASSERT_TRUE(made.has_value()) << made.error().message;
  std::set<std::tuple<int, int, int>> used;
  for (std::size_t rank = 0; rank < made->program.ranks.size(); ++rank) {
    for (const auto& block : made->program.ranks[rank].blocks) {
      for (const auto& step : block.steps) {
        if (program::Sends(step.op))
          used.insert({static_cast<int>(rank), block.send_peer, block.channel});
      }
    }
  }
  std::set<std::tuple<int, int, int>> known;
  std::set<std::vector<NodeId>> ways;
  for (const ConnectionPath& path : made->paths) {
    known.insert({path.from, path.to, path.channel});
    EXPECT_TRUE(ways.insert(path.nodes).second);
    EXPECT_GE(path.nodes.size(), 3U);
  }
  EXPECT_EQ(used, known);
}

// The connections of every single tree join all ranks, and lead away from its root or towards it.
TEST(ForestProgram, TellsWhichConnectionsEachTreeTakes) {
  const Topology topology =
      BuildOrDie(fabric::BuildLeafSpine({.spines = 4, .leaves = 4, .hosts_per_leaf = 4}));
  const auto plan = forest::MakeTreeSchedule(topology, {.collective = Collective::kAllreduce});
  ASSERT_TRUE(plan.has_value()) << plan.error().message;
  const auto made = MakeForestProgram("fabric", plan->schedule);
  ASSERT_TRUE(made.has_value()) << made.error().message;
  const std::size_t ranks = plan->schedule.ranks.size();
  std::map<std::pair<std::size_t, int>, std::int64_t> trees;  // by phase and root
  std::set<std::int32_t> used;
  for (const TreeConnections& tree : made->trees) {
    EXPECT_EQ(tree.to_root, plan->schedule.phases[tree.phase].reversed);
    trees[{tree.phase, tree.root}] += tree.count;
    std::map<int, std::set<int>> parents;
    for (const std::int32_t connection : tree.connections) {
      const ConnectionPath& path = made->paths.at(static_cast<std::size_t>(connection));
      parents[tree.to_root ? path.from : path.to].insert(tree.to_root ? path.to : path.from);
      used.insert(connection);
    }
    EXPECT_EQ(parents.size(), ranks - 1);
    std::int32_t height = 0;
    for (const auto& [rank, above] : parents) {
      ASSERT_EQ(above.size(), 1U);
      int at = rank;
      std::int32_t steps = 0;
      while (at != tree.root && steps <= static_cast<std::int32_t>(ranks)) {
        at = *parents.at(at).begin();
        ++steps;
      }
      EXPECT_EQ(at, tree.root);
      height = std::max(height, steps);
    }
    EXPECT_EQ(height, tree.height);
  }
  EXPECT_EQ(used.size(), made->paths.size());
  EXPECT_EQ(trees.size(), 2 * ranks);
  for (const auto& [which, count] : trees) EXPECT_EQ(count, plan->schedule.trees_per_weight);
}

TEST(ForestProgram, RefusesAnAllgatherOfUnequalShares) {
  const Topology topology = BuildOrDie(fabric::BuildA100({1}));
  ScheduleOptions options;
  options.problem.weights = {2, 1, 1, 1, 1, 1, 1, 1};
  const auto plan = MakeTreeSchedule(topology, options);
  ASSERT_TRUE(plan.has_value()) << plan.error().message;
  const auto made = MakeForestProgram("unequal", plan->schedule);
  ASSERT_FALSE(made.has_value());
  EXPECT_EQ(made.error().code, ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace espalier::algorithms
