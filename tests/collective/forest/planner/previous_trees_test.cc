#include "collective/forest/planner/previous_trees.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "collective/forest/model/routed_trees.h"
#include "collective/forest/planner/planner.h"
#include "tests/collective/forest/random_problem.h"
#include "tests/collective/forest/reference_cases.h"
#include "tests/seeds.h"

namespace espalier::forest {
namespace {

using fabric::NodeId;
using fabric::Topology;
using testing::HasSubstr;

struct Made {
  Topology topology;
  TreeSchedule schedule;
};

std::optional<Made> MakeRandom(std::mt19937_64& random, Collective collective) {
  Topology topology = BuildTopology(MakeRandomGraph({.max_rate = 50}, random));
  auto made = MakeTreeSchedule(topology, {.collective = collective, .height_steps = 1'000});
  if (!made) return std::nullopt;
  return Made{std::move(topology), std::move(made->schedule)};
}

// The trees of the phase of a direction, as "root: parent>child over node node, ..." by ids, with
// the number of each.
std::map<std::string, std::int64_t> Describe(const Made& made, bool reversed,
                                             const Topology* alive) {
  std::map<std::string, std::int64_t> trees;
  const auto id = [&](NodeId node) { return made.topology.node(node).id; };
  for (const Phase& phase : made.schedule.phases) {
    if (phase.reversed != reversed) continue;
    const Forest& forest = made.schedule.forests[phase.forest];
    VisitRoutedTrees(forest, [&](const RoutedTree& tree) {
      std::vector<std::string> edges;
      bool is_whole = true;
      for (const TreeEdge& edge : tree.edges) {
        std::string text = id(made.schedule.ranks[edge.parent]);
        for (const std::int32_t hop : forest.routes.Hops(*edge.route)) {
          const Channel& channel = phase.channels[static_cast<std::size_t>(hop)];
          text += ">" + id(reversed ? channel.from : channel.to);
          bool is_up = alive == nullptr;
          for (std::size_t i = 0; !is_up && i < alive->links().size(); ++i) {
            const fabric::Link& link = alive->links()[i];
            const bool joins = (link.a == channel.from && link.b == channel.to) ||
                               (!link.directed && link.b == channel.from && link.a == channel.to);
            is_up = joins && link.state == fabric::LinkState::kUp;
          }
          is_whole = is_whole && is_up;
        }
        edges.push_back(text);
      }
      std::ranges::sort(edges);
      std::string text = id(made.schedule.ranks[tree.root]) + ":";
      for (const std::string& edge : edges) text += " " + edge;
      if (is_whole) trees[text] += tree.count;
      return true;
    });
  }
  return trees;
}

// The same of trees that were found, in terms of a problem.
std::map<std::string, std::int64_t> Describe(const PreviousTrees& found, const Problem& problem) {
  std::map<std::string, std::int64_t> trees;
  for (const PreviousTrees::Tree& tree : found.trees) {
    std::vector<std::string> edges;
    for (std::size_t rank = 0; rank < tree.parents.size(); ++rank) {
      if (tree.parents[rank] == kNoRank) continue;
      std::string text = problem.names[tree.parents[rank]];
      for (const std::int32_t arc : found.routes[static_cast<std::size_t>(tree.routes[rank])]) {
        const std::int32_t head = problem.arcs[static_cast<std::size_t>(arc)].head;
        text += ">" + problem.names[static_cast<std::size_t>(head)];
      }
      edges.push_back(text);
    }
    std::ranges::sort(edges);
    std::string text = problem.names[tree.root] + ":";
    for (const std::string& edge : edges) text += " " + edge;
    trees[text] += tree.count;
  }
  return trees;
}

// The same nodes and links, in another order.
Topology Shuffle(const Topology& topology, std::mt19937_64& random) {
  fabric::TopologySpec spec = topology.Spec();
  std::vector<std::int32_t> order;
  for (std::size_t i = 0; i < spec.nodes.size(); ++i) order.push_back(static_cast<std::int32_t>(i));
  std::shuffle(order.begin(), order.end(), random);
  fabric::TopologySpec shuffled = spec;
  for (std::size_t i = 0; i < order.size(); ++i) {
    shuffled.nodes[static_cast<std::size_t>(order[i])] = spec.nodes[i];
  }
  for (fabric::Link& link : shuffled.links) {
    link.a = NodeId(order[link.a.Index()]);
    link.b = NodeId(order[link.b.Index()]);
  }
  std::shuffle(shuffled.links.begin(), shuffled.links.end(), random);
  return BuildTopology(std::move(shuffled));
}

TEST(FindPreviousTrees, FindsTheTreesWhoseLinksAreStillThere) {
  int whole = 0;
  int lost = 0;
  for (const std::uint64_t seed : SeedsToTry(1, 60)) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    const auto made = MakeRandom(random, Collective::kAllreduce);
    if (!made) continue;
    Topology damaged = made->topology;
    for (std::size_t failures = random() % 3; failures > 0; --failures) {
      damaged.SetLinkState(
          fabric::LinkId(static_cast<std::int32_t>(random() % damaged.links().size())),
          fabric::LinkState::kDown);
    }
    const Topology now = Shuffle(damaged, random);
    for (const bool reversed : {false, true}) {
      auto problem = BuildProblem(now, {.balanced = false});
      ASSERT_TRUE(problem.has_value());
      if (reversed) problem = Transpose(*problem);
      const auto found = FindPreviousTrees(now, *problem, made->schedule, made->topology, reversed);
      ASSERT_TRUE(found.has_value()) << found.error().message;
      EXPECT_EQ(Describe(*found, *problem), Describe(*made, reversed, &damaged));
      EXPECT_EQ(found->whole_trees, found->trees.size());
      EXPECT_EQ(found->trees_per_weight, made->schedule.trees_per_weight);
      whole += static_cast<int>(found->trees.size());
      lost += static_cast<int>(found->broken.size());
      for (const PreviousTrees::Tree& tree : found->broken) {
        EXPECT_TRUE(tree.rerouted);
        EXPECT_GT(std::ranges::count(tree.routes, -1), 1) << "the root's, and a lost one";
      }
    }
  }
  EXPECT_GT(whole, 100);
  EXPECT_GT(lost, 50);
}

// The parts of a root's shard add up to the whole.
TEST(FindPreviousTrees, CoversEveryShardOnce) {
  for (const std::uint64_t seed : SeedsToTry(1, 30)) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    const auto made = MakeRandom(random, Collective::kAllgather);
    if (!made) continue;
    const auto problem = BuildProblem(made->topology, {});
    const auto found =
        FindPreviousTrees(made->topology, *problem, made->schedule, made->topology, false);
    ASSERT_TRUE(found.has_value());
    std::vector<std::int64_t> units(problem->weight.size(), 0);
    for (const PreviousTrees::Tree& tree : found->trees) {
      EXPECT_EQ(tree.of, made->schedule.trees_per_weight * problem->weight[tree.root]);
      units[tree.root] += tree.Units(*problem, 6 * made->schedule.trees_per_weight);
    }
    for (std::size_t rank = 0; rank < units.size(); ++rank) {
      EXPECT_EQ(units[rank], 6 * made->schedule.trees_per_weight * problem->weight[rank]);
    }
    EXPECT_EQ(FindPreviousTrees(made->topology, *problem, made->schedule, made->topology, true)
                  ->trees.size(),
              0U);
  }
}

// A line of ranks a - b - c. Data from a to c has to stop at b: a path that passes through a rank
// is lost, although its links are there.
TEST(FindPreviousTrees, PathsThroughARankAreLost) {
  fabric::TopologySpec spec;
  for (const char* id : {"a", "b", "c"}) spec.nodes.push_back({.id = id});
  for (int i = 0; i < 2; ++i) {
    spec.links.push_back({.a = NodeId(i), .b = NodeId(i + 1), .rate = BitsPerSecond{1'000}});
  }
  const Topology topology = BuildTopology(std::move(spec));
  const Problem problem = *BuildProblem(topology, {.weights = {1, 0, 0}});
  TreeSchedule schedule{.collective = Collective::kBroadcast,
                        .ranks = {NodeId(0), NodeId(1), NodeId(2)},
                        .weights = {1, 0, 0},
                        .trees_per_weight = 1};
  const auto make = [&](bool stops) {
    Forest forest;
    forest.rank_count = 3;
    forest.classes = {{0, 1}};
    forest.parents = {kNoRank, 0, static_cast<Rank>(stops ? 1 : 0)};
    forest.routes.AddArc(0, 1);
    forest.routes.AddRoute(1, std::vector<std::int32_t>{0});
    forest.routes.AddArc(static_cast<Rank>(stops ? 1 : 0), 2);
    forest.routes.AddRoute(1,
                           stops ? std::vector<std::int32_t>{1} : std::vector<std::int32_t>{0, 1});
    forest.routes.Index(3);
    schedule.forests = {forest};
    schedule.phases = {{.channels = {{NodeId(0), NodeId(1)}, {NodeId(1), NodeId(2)}}}};
    return *FindPreviousTrees(topology, problem, schedule, topology, false);
  };
  EXPECT_EQ(make(true).trees.size(), 1U);
  EXPECT_TRUE(make(true).broken.empty());
  EXPECT_TRUE(make(false).trees.empty());
  EXPECT_EQ(make(false).broken.size(), 1U);
}

TEST(FindPreviousTrees, RefusesWhatCannotBeWalked) {
  const Topology topology = BuildTopology(MakeReferenceTopology("clos4x3s2"));
  const Problem problem = *BuildProblem(topology, {});
  const TreeSchedule good = MakeTreeSchedule(topology, {})->schedule;
  const auto error = [&](const std::function<void(TreeSchedule&)>& change) {
    TreeSchedule bad = good;
    change(bad);
    const auto found = FindPreviousTrees(topology, problem, bad, topology, false);
    if (found) return std::string("none");
    EXPECT_EQ(found.error().code, ErrorCode::kInvalidArgument);
    return found.error().message;
  };
  EXPECT_EQ(error([](TreeSchedule&) {}), "none");
  EXPECT_THAT(error([](auto& bad) { bad.phases[0].forest = bad.forests.size(); }),
              HasSubstr("a phase has no forest"));
  const auto sizes = HasSubstr("array sizes do not match");
  EXPECT_THAT(error([](auto& bad) { bad.weights.pop_back(); }), sizes);
  EXPECT_THAT(error([](auto& bad) { bad.trees_per_weight = 0; }), sizes);
  EXPECT_THAT(error([](auto& bad) { --bad.forests[0].rank_count; }), sizes);
  EXPECT_THAT(error([](auto& bad) { bad.forests[0].parents.push_back(0); }), sizes);
  const auto no_trees = HasSubstr("a class has no trees");
  EXPECT_THAT(error([](auto& bad) { bad.forests[0].classes[0].count = 0; }), no_trees);
  EXPECT_THAT(error([](auto& bad) {
                bad.forests[0].classes[0].root = static_cast<Rank>(bad.ranks.size());
              }),
              no_trees);
  // The last channel that some route takes is not there.
  std::int32_t last = 0;
  const RoutingTable& routes = good.forests[0].routes;
  for (std::size_t arc = 0; arc < routes.ArcCount(); ++arc) {
    for (const Route& route : routes.Routes(arc)) {
      for (const std::int32_t hop : routes.Hops(route)) last = std::max(last, hop);
    }
  }
  EXPECT_THAT(
      error([&](auto& bad) { bad.phases[0].channels.resize(static_cast<std::size_t>(last)); }),
      HasSubstr("a hop does not exist"));
}

}  // namespace
}  // namespace espalier::forest
