#include "controller/routing/greedy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>

#include "common/fabric/builders.h"

namespace espalier::controller {
namespace {

using fabric::LinkState;
using fabric::NodeId;
using fabric::Path;
using fabric::PathIndex;
using fabric::PathTable;
using fabric::Topology;

Topology LeafSpine(int spines, int leaves) {
  return *Topology::Build(
      *fabric::BuildLeafSpine({.spines = spines, .leaves = leaves, .hosts_per_leaf = 1}));
}

NodeId Leaf(const Topology& topology, int number) {
  return *topology.FindNode("leaf" + std::to_string(number));
}

using Demands = std::vector<std::pair<int, int>>;  // source leaf, destination leaf

std::vector<std::span<const Path>> Commodities(const Topology& topology, PathTable& paths,
                                               const Demands& demands) {
  std::vector<std::span<const Path>> commodities;
  for (const auto& [from, to] : demands) {
    commodities.push_back(paths.Between(Leaf(topology, from), Leaf(topology, to)));
  }
  return commodities;
}

// The least possible load of the busiest link, by trying every assignment.
std::int32_t BruteForceOptimum(const Topology& topology,
                               std::span<const std::span<const Path>> commodities) {
  std::int32_t best = static_cast<std::int32_t>(commodities.size());
  LinkLoads loads(topology.links().size());
  const std::function<void(std::size_t)> place = [&](std::size_t i) {
    if (loads.Max() >= best) return;
    if (i == commodities.size()) {
      best = loads.Max();
      return;
    }
    for (const Path& path : commodities[i]) {
      loads.Add(path);
      place(i + 1);
      loads.Remove(path);
    }
  };
  place(0);
  return best;
}

TEST(AssignGreedy, TakesTheLowestSpineAmongEquals) {
  const Topology topology = LeafSpine(4, 3);
  PathTable paths(topology);
  LinkLoads loads(topology.links().size());
  const auto commodities = Commodities(topology, paths, {{0, 1}, {0, 2}, {1, 2}, {0, 1}});
  const auto assignment = AssignGreedy(topology, commodities, loads);
  EXPECT_EQ(assignment[0], PathIndex(0));
  EXPECT_EQ(assignment[1], PathIndex(1));  // leaf0's link to spine 0 is taken
  EXPECT_EQ(assignment[2], PathIndex(0));  // leaf1 up and leaf2 down through spine 0 are free
  EXPECT_EQ(assignment[3], PathIndex(2));
  EXPECT_EQ(loads.Max(), 1);
}

TEST(AssignGreedy, CountsTheFlowsThatKeepTheirPaths) {
  const Topology topology = LeafSpine(2, 2);
  PathTable paths(topology);
  LinkLoads loads(topology.links().size());
  const auto commodities = Commodities(topology, paths, {{0, 1}});
  loads.Add(commodities[0][0]);
  EXPECT_EQ(AssignGreedy(topology, commodities, loads)[0], PathIndex(1));
}

TEST(AssignGreedy, NeverUsesALinkThatIsDownOrDrained) {
  Topology topology = LeafSpine(3, 2);
  PathTable paths(topology);
  topology.SetLinkState(*topology.FindLink("leaf0--spine0"), LinkState::kDown);
  topology.SetLinkState(*topology.FindLink("leaf1--spine1"), LinkState::kDrained);
  LinkLoads loads(topology.links().size());
  const auto commodities = Commodities(topology, paths, {{0, 1}, {0, 1}});
  for (const auto& path : AssignGreedy(topology, commodities, loads)) {
    EXPECT_EQ(path, PathIndex(2));
  }
  topology.SetLinkState(*topology.FindLink("leaf1--spine2"), LinkState::kDown);
  EXPECT_EQ(AssignGreedy(topology, commodities, loads)[0], std::nullopt);
}

TEST(AssignGreedy, IsWithinTwiceTheOptimumOnAFullClos) {
  std::mt19937 random(20'241);
  for (int trial = 0; trial < 200; ++trial) {
    const int spines = std::uniform_int_distribution(1, 3)(random);
    const int leaves = std::uniform_int_distribution(2, 4)(random);
    const Topology topology = LeafSpine(spines, leaves);
    PathTable paths(topology);
    Demands demands;
    for (int i = std::uniform_int_distribution(1, 7)(random); i > 0; --i) {
      const int from = std::uniform_int_distribution(0, leaves - 1)(random);
      const int hop = std::uniform_int_distribution(1, leaves - 1)(random);
      demands.emplace_back(from, (from + hop) % leaves);
    }
    const auto commodities = Commodities(topology, paths, demands);
    LinkLoads loads(topology.links().size());
    AssignGreedy(topology, commodities, loads);
    EXPECT_LE(loads.Max(), 2 * BruteForceOptimum(topology, commodities)) << "trial " << trial;
  }
}

TEST(LinkLoads, RemovingTakesBackWhatAddingGave) {
  const Topology topology = LeafSpine(2, 2);
  PathTable paths(topology);
  LinkLoads loads(topology.links().size());
  const Path& path = paths.Between(Leaf(topology, 0), Leaf(topology, 1))[1];
  loads.Add(path);
  loads.Add(path);
  EXPECT_EQ(loads.Busiest(path), 2);
  loads.Remove(path);
  loads.Remove(path);
  EXPECT_EQ(loads.Max(), 0);
  EXPECT_DEATH(loads.Remove(path), "flows=-1");
}

}  // namespace
}  // namespace espalier::controller
