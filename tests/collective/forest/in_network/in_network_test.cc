#include "collective/forest/in_network/in_network.h"

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "collective/forest/planner/planner.h"
#include "common/fabric/accelerator_builders.h"
#include "tests/collective/forest/random_problem.h"
#include "tests/collective/forest/reference_cases.h"
#include "tests/seeds.h"

namespace espalier::forest {
namespace {

using fabric::NodeId;
using fabric::Topology;

struct Made {
  Topology topology;
  TreeSchedule schedule;
};

// A random graph of which some switches copy and some add up. None if it is not connected.
std::optional<Made> MakeRandom(std::mt19937_64& random, Collective collective) {
  fabric::TopologySpec spec =
      MakeRandomGraph({.max_ranks = 7, .max_switches = 6, .max_rate = 20}, random);
  for (fabric::Node& node : spec.nodes) {
    node.multicast = random() % 2 == 0 && node.kind == fabric::NodeKind::kSwitch;
    node.reduce = random() % 2 == 0 && node.kind == fabric::NodeKind::kSwitch;
  }
  Topology topology = BuildTopology(std::move(spec));
  auto made = MakeTreeSchedule(topology, {.collective = collective, .height_steps = 1'000});
  if (!made) return std::nullopt;
  return Made{std::move(topology), std::move(made->schedule)};
}

// The nodes of an edge's route, from the parent to the child.
std::vector<NodeId> PathOf(const TreeSchedule& schedule, const Phase& phase, const TreeEdge& edge) {
  std::vector<NodeId> path = {schedule.ranks[edge.parent]};
  for (const std::int32_t hop : schedule.forests[phase.forest].routes.Hops(*edge.route)) {
    const Channel& channel = phase.channels[static_cast<std::size_t>(hop)];
    path.push_back(phase.reversed ? channel.from : channel.to);
  }
  return path;
}

bool IsCapable(const Made& made, const Phase& phase, NodeId node) {
  const fabric::Node& at = made.topology.node(node);
  return phase.reversed ? at.reduce : at.multicast;
}

// All of the definition: what remains of an edge begins at its parent or at a switch that copies
// (adds up) and has the data, and no such switch gets the data of a tree twice.
TEST(TreePruner, BringsDataOnceToEverySwitchThatCanCopy) {
  std::int64_t dropped = 0;
  for (const std::uint64_t seed : SeedsToTry(1, 60)) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    const auto made = MakeRandom(random, Collective::kAllreduce);
    if (!made) continue;
    for (const Phase& phase : made->schedule.phases) {
      TreePruner pruner(made->topology, made->schedule, phase);
      VisitRoutedTrees(made->schedule.forests[phase.forest], [&](const RoutedTree& tree) {
        const std::span<const std::int32_t> pruned = pruner.Prune(tree);
        EXPECT_EQ(pruned.size(), tree.edges.size());
        std::map<NodeId, int> entered;
        for (std::size_t e = 0; e < tree.edges.size(); ++e) {
          const std::vector<NodeId> path = PathOf(made->schedule, phase, tree.edges[e]);
          const auto begin = static_cast<std::size_t>(pruned[e]);
          dropped += pruned[e];
          EXPECT_LT(begin + 1, path.size()) << "something enters the child";
          if (begin > 0) {
            EXPECT_EQ(pruner.SwitchAt(tree.edges[e], pruned[e]), path[begin]);
            EXPECT_TRUE(IsCapable(*made, phase, path[begin]));
            EXPECT_EQ(entered[path[begin]], 1) << "the data was there before";
          }
          // A route may come to a switch twice; that counts once.
          for (const NodeId node : std::set<NodeId>(path.begin() + pruned[e] + 1, path.end())) {
            ++entered[node];
          }
        }
        for (const auto& [node, times] : entered) {
          if (!IsCapable(*made, phase, node)) continue;
          EXPECT_EQ(times, 1) << made->topology.node(node).id;
        }
        return true;
      });
    }
  }
  EXPECT_GT(dropped, 100);
}

TEST(CountPrunedLoads, AddsUpWhatRemainsOfTheTrees) {
  for (const std::uint64_t seed : SeedsToTry(1, 40)) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    const auto made = MakeRandom(random, Collective::kAllreduce);
    if (!made) continue;
    const auto loads = CountPrunedLoads(made->topology, made->schedule);
    ASSERT_TRUE(loads.has_value()) << loads.error().message;
    ASSERT_EQ(loads->size(), made->schedule.phases.size());
    for (std::size_t p = 0; p < loads->size(); ++p) {
      const Phase& phase = made->schedule.phases[p];
      const RoutingTable& routes = made->schedule.forests[phase.forest].routes;
      std::vector<std::int64_t> expected(phase.channels.size(), 0);
      TreePruner pruner(made->topology, made->schedule, phase);
      VisitRoutedTrees(made->schedule.forests[phase.forest], [&](const RoutedTree& tree) {
        const auto pruned = pruner.Prune(tree);
        for (std::size_t e = 0; e < tree.edges.size(); ++e) {
          const auto hops = routes.Hops(*tree.edges[e].route);
          for (std::size_t h = static_cast<std::size_t>(pruned[e]); h < hops.size(); ++h) {
            expected[static_cast<std::size_t>(hops[h])] += tree.count;
          }
        }
        return true;
      });
      EXPECT_EQ((*loads)[p], expected);
    }
  }
}

// Without any switch that copies, nothing is dropped: the loads are those of the verifier.
TEST(CountPrunedLoads, AreTheVerifiersWithoutCapableSwitches) {
  Topology topology = BuildTopology(MakeReferenceTopology("clos4x3s2"));
  fabric::TopologySpec spec = topology.Spec();
  for (fabric::Node& node : spec.nodes) node.multicast = node.reduce = false;
  topology = BuildTopology(spec);
  const auto made = MakeTreeSchedule(topology, {.collective = Collective::kAllreduce});
  ASSERT_TRUE(made.has_value());
  const auto loads = CountPrunedLoads(topology, made->schedule);
  ASSERT_TRUE(loads.has_value());
  ASSERT_EQ(loads->size(), made->findings.loads.size());
  for (std::size_t p = 0; p < loads->size(); ++p) {
    ASSERT_EQ((*loads)[p].size(), made->findings.loads[p].size());
    for (std::size_t c = 0; c < (*loads)[p].size(); ++c) {
      EXPECT_EQ((*loads)[p][c], made->findings.loads[p][c].trees);
    }
  }
  for (fabric::Node& node : spec.nodes) {
    node.multicast = node.reduce = node.kind == fabric::NodeKind::kSwitch;
  }
  topology = BuildTopology(spec);
  const auto fewer = CountPrunedLoads(topology, made->schedule);
  ASSERT_TRUE(fewer.has_value());
  std::int64_t all = 0;
  std::int64_t left = 0;
  for (std::size_t p = 0; p < loads->size(); ++p) {
    for (std::size_t c = 0; c < (*loads)[p].size(); ++c) {
      EXPECT_LE((*fewer)[p][c], (*loads)[p][c]);
      all += (*loads)[p][c];
      left += (*fewer)[p][c];
    }
  }
  EXPECT_LT(left, all);
}

// A file that states the copies edge by edge has to state exactly those that follow.
TEST(CountPrunedLoads, RefusesStatedCopiesThatDoNotFollowFromTheTrees) {
  int checked = 0;
  for (const std::uint64_t seed : SeedsToTry(1, 30)) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    auto made = MakeRandom(random, Collective::kAllgather);
    if (!made) continue;
    const Phase& phase = made->schedule.phases[0];
    std::vector<CopyPoint> copies;
    std::set<std::pair<std::size_t, Rank>> seen;
    bool divided = false;  // edges whose trees take several routes cannot be stated
    TreePruner pruner(made->topology, made->schedule, phase);
    VisitRoutedTrees(made->schedule.forests[0], [&](const RoutedTree& tree) {
      const auto pruned = pruner.Prune(tree);
      for (std::size_t e = 0; e < tree.edges.size(); ++e) {
        const TreeEdge& edge = tree.edges[e];
        divided |= !seen.emplace(tree.tree_class, edge.child).second;
        if (pruned[e] == 0) continue;
        copies.push_back({0, tree.tree_class, edge.child, pruner.SwitchAt(edge, pruned[e])});
      }
      return true;
    });
    if (divided || copies.empty()) continue;
    ++checked;
    const auto verdict = [&](const std::vector<CopyPoint>& stated) {
      made->schedule.stated_copies = stated;
      const auto loads = CountPrunedLoads(made->topology, made->schedule);
      return loads ? std::optional<ErrorCode>() : loads.error().code;
    };
    EXPECT_EQ(verdict(copies), std::nullopt);
    std::vector<CopyPoint> wrong = copies;
    wrong.pop_back();
    EXPECT_EQ(verdict(wrong), ErrorCode::kFailedPrecondition);
    wrong = copies;
    wrong[0].at = made->schedule.ranks[0];
    EXPECT_EQ(verdict(wrong), ErrorCode::kFailedPrecondition);
  }
  EXPECT_GT(checked, 3);
}

}  // namespace
}  // namespace espalier::forest
