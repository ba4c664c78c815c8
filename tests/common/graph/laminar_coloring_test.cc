#include "common/graph/laminar_coloring.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <tuple>

namespace espalier::graph {
namespace {

// Pods of equally many leaves, with equally many planes and cores.
struct Pods {
  std::uint32_t pods;
  std::uint32_t leaves_each;
  std::uint32_t planes;
  std::uint32_t cores;

  std::vector<std::uint32_t> pod_of;
  std::vector<std::uint32_t> planes_above;
  std::vector<std::uint32_t> cores_above;
  std::vector<LaminarTier> tiers;

  void Build(std::int64_t core_rate = 1) {
    for (std::uint32_t leaf = 0; leaf < pods * leaves_each; ++leaf) {
      pod_of.push_back(leaf / leaves_each);
    }
    planes_above = {0, planes};
    for (std::uint32_t plane = 0; plane <= planes; ++plane) cores_above.push_back(plane * cores);
    tiers = {{.blocks = pods * leaves_each, .first_above = planes_above},
             {.block_of = pod_of, .blocks = pods, .first_above = cores_above, .rate = core_rate}};
  }
};

using Edges = std::vector<BipartiteEdge>;

Edges RandomEdges(std::mt19937& random, const Pods& fabric, std::size_t count, bool only_between) {
  Edges edges;
  const std::uint32_t leaves = fabric.pods * fabric.leaves_each;
  while (edges.size() < count) {
    const BipartiteEdge edge{static_cast<std::uint32_t>(random() % leaves),
                             static_cast<std::uint32_t>(random() % leaves)};
    if (edge.left == edge.right) continue;
    if (only_between && fabric.pod_of[edge.left] == fabric.pod_of[edge.right]) continue;
    edges.push_back(edge);
  }
  return edges;
}

// How often each link is used: by tier, direction, block and top.
using Key = std::tuple<std::size_t, int, std::uint32_t, std::uint32_t>;
std::map<Key, std::int64_t> LinksOf(const Pods& fabric, const Edges& edges,
                                    std::span<const std::uint32_t> colors) {
  std::map<Key, std::int64_t> links;
  for (std::size_t i = 0; i < edges.size(); ++i) {
    const std::uint32_t from = fabric.pod_of[edges[i].left];
    const std::uint32_t to = fabric.pod_of[edges[i].right];
    const std::uint32_t plane = from == to ? colors[i] : colors[i] / fabric.cores;
    EXPECT_LT(plane, fabric.planes);
    ++links[{0, 0, edges[i].left, plane}];
    ++links[{0, 1, edges[i].right, plane}];
    if (from == to) continue;
    ++links[{1, 0, from, colors[i]}];
    ++links[{1, 1, to, colors[i]}];
  }
  return links;
}

std::int64_t MostOf(const std::map<Key, std::int64_t>& links, std::size_t tier) {
  std::int64_t most = 0;
  for (const auto& [key, count] : links) {
    if (std::get<0>(key) == tier) most = std::max(most, count);
  }
  return most;
}

TEST(LaminarColoring, LoadsEveryTierLeastIfAllFlowsLeaveTheirPods) {
  std::mt19937 random(1);
  LaminarColoring coloring;
  for (int round = 0; round < 300; ++round) {
    const auto one_to = [&](std::uint32_t most) {
      return 1 + static_cast<std::uint32_t>(random() % most);
    };
    Pods fabric{
        .pods = 1 + one_to(6), .leaves_each = one_to(8), .planes = one_to(9), .cores = one_to(5)};
    fabric.Build();
    const Edges edges = RandomEdges(random, fabric, one_to(600), true);
    const auto links = LinksOf(fabric, edges, coloring.Color(edges, fabric.tiers));
    std::map<std::pair<int, std::uint32_t>, std::int64_t> of_leaf;
    std::map<std::pair<int, std::uint32_t>, std::int64_t> of_pod;
    for (const BipartiteEdge& edge : edges) {
      ++of_leaf[{0, edge.left}];
      ++of_leaf[{1, edge.right}];
      ++of_pod[{0, fabric.pod_of[edge.left]}];
      ++of_pod[{1, fabric.pod_of[edge.right]}];
    }
    const auto bound = [](const auto& counts, std::int64_t links_up) {
      std::int64_t most = 0;
      for (const auto& [block, count] : counts) {
        most = std::max(most, (count + links_up - 1) / links_up);
      }
      return most;
    };
    ASSERT_EQ(coloring.loads()[0].bound, bound(of_leaf, fabric.planes));
    ASSERT_EQ(coloring.loads()[0].most, coloring.loads()[0].bound);
    if (coloring.loads()[1].most > 1) {
      ASSERT_EQ(coloring.loads()[1].bound, bound(of_pod, fabric.planes * fabric.cores));
    }
    ASSERT_EQ(coloring.loads()[1].most, coloring.loads()[1].bound);
    EXPECT_TRUE(coloring.has_one_height());
    for (const std::size_t tier : {0U, 1U}) {
      ASSERT_EQ(MostOf(links, tier), coloring.loads()[tier].most);
    }
  }
}

TEST(LaminarColoring, LoadsLeavesByOneFlowMoreAtWorst) {
  std::mt19937 random(2);
  LaminarColoring coloring;
  int gained = 0;
  for (int round = 0; round < 300; ++round) {
    const bool is_slow = random() % 2 == 0;  // cores count more than leaves
    Pods fabric{.pods = 4, .leaves_each = 6, .planes = 5, .cores = 2};
    fabric.Build();
    fabric.tiers[0].rate = is_slow ? 4 : 1;
    const Edges edges = RandomEdges(random, fabric, 30 + random() % 300, false);
    const auto links = LinksOf(fabric, edges, coloring.Color(edges, fabric.tiers));
    for (const std::size_t tier : {0U, 1U}) {
      ASSERT_EQ(MostOf(links, tier), coloring.loads()[tier].most);
      ASSERT_GE(coloring.loads()[tier].most, coloring.loads()[tier].bound);
    }
    EXPECT_LE(coloring.loads()[0].most, coloring.loads()[0].bound + 1);
    EXPECT_FALSE(coloring.has_one_height());
    gained += coloring.loads()[1].most == coloring.loads()[1].bound ? 1 : 0;
  }
  EXPECT_GT(gained, 290);
}

TEST(LaminarColoring, IsDeterministicWhateverCameBefore) {
  std::mt19937 random(3);
  Pods fabric{.pods = 3, .leaves_each = 5, .planes = 4, .cores = 2};
  fabric.Build();
  const Edges edges = RandomEdges(random, fabric, 200, false);
  LaminarColoring fresh;
  const auto expected = fresh.Color(edges, fabric.tiers);
  const std::vector<std::uint32_t> first(expected.begin(), expected.end());
  LaminarColoring used;
  used.Color(RandomEdges(random, fabric, 500, true), fabric.tiers);
  const auto again = used.Color(edges, fabric.tiers);
  EXPECT_EQ(first, std::vector<std::uint32_t>(again.begin(), again.end()));
}

}  // namespace
}  // namespace espalier::graph
