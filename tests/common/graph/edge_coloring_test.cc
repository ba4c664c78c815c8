#include "common/graph/edge_coloring.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "common/graph/chain_walk.h"

namespace espalier::graph {
namespace {

using Edges = std::vector<BipartiteEdge>;

// Checks that at every vertex each colour occurs floor or ceiling of degree / colours times.
// Returns the maximum number of edges of one colour at one vertex.
std::uint32_t ExpectEquitable(const Edges& edges, std::span<const std::uint16_t> coloring,
                              std::uint32_t colors) {
  EXPECT_EQ(coloring.size(), edges.size());
  std::uint32_t vertices = 0;
  for (const auto& edge : edges) vertices = std::max({vertices, edge.left + 1, edge.right + 1});
  std::uint32_t worst = 0;
  for (const bool left : {true, false}) {
    std::vector<std::uint32_t> counts(std::size_t{vertices} * colors);
    std::vector<std::uint32_t> degrees(vertices);
    for (std::size_t i = 0; i < edges.size(); ++i) {
      const std::uint32_t vertex = left ? edges[i].left : edges[i].right;
      EXPECT_LT(coloring[i], colors);
      ++counts[std::size_t{vertex} * colors + coloring[i]];
      ++degrees[vertex];
    }
    for (std::size_t i = 0; i < counts.size(); ++i) {
      const std::uint32_t degree = degrees[i / colors];
      EXPECT_GE(counts[i], degree / colors) << "vertex " << i / colors << " left " << left;
      EXPECT_LE(counts[i], (degree + colors - 1) / colors) << "vertex " << i / colors;
      worst = std::max(worst, counts[i]);
    }
  }
  return worst;
}

std::uint32_t MaxDegree(const Edges& edges) {
  std::uint32_t worst = 0;
  for (const bool left : {true, false}) {
    std::vector<std::uint32_t> degrees;
    for (const auto& edge : edges) {
      const std::uint32_t vertex = left ? edge.left : edge.right;
      if (vertex >= degrees.size()) degrees.resize(vertex + 1);
      worst = std::max(worst, ++degrees[vertex]);
    }
  }
  return worst;
}

Edges RandomMultigraph(std::mt19937& random, std::uint32_t lefts, std::uint32_t rights,
                       std::size_t count) {
  Edges edges(count);
  for (auto& edge : edges) {
    edge = {static_cast<std::uint32_t>(random() % lefts),
            static_cast<std::uint32_t>(random() % rights)};
  }
  return edges;
}

// Makes `degree` random permutations, so that every vertex has exactly `degree` edges, in the order
// of the left vertices.
Edges RandomRegular(std::mt19937& random, std::uint32_t vertices, std::uint32_t degree) {
  Edges edges;
  std::vector<std::uint32_t> ends(vertices * degree);
  for (std::size_t i = 0; i < ends.size(); ++i) ends[i] = static_cast<std::uint32_t>(i) / degree;
  std::shuffle(ends.begin(), ends.end(), random);
  for (std::size_t i = 0; i < ends.size(); ++i) {
    edges.push_back({static_cast<std::uint32_t>(i) / degree, ends[i]});
  }
  return edges;
}

TEST(EdgeColoring, ColorsNothing) {
  EdgeColoring coloring;
  EXPECT_TRUE(coloring.Color({}, 0, 0, 1).empty());
  EXPECT_TRUE(coloring.Color({}, 3, 5, 70).empty());
}

TEST(EdgeColoring, OneColorTakesAll) {
  EdgeColoring coloring;
  const Edges edges = {{0, 0}, {0, 1}, {1, 1}, {0, 0}};
  for (const std::uint16_t color : coloring.Color(edges, 2, 2, 1)) EXPECT_EQ(color, 0);
}

TEST(EdgeColoring, IsEquitableOnRandomMultigraphs) {
  std::mt19937 random(1);
  EdgeColoring coloring;  // one workspace for all, as no call may affect the next
  for (int round = 0; round < 1'500; ++round) {
    const auto lefts = static_cast<std::uint32_t>(1 + random() % 12);
    const auto rights = static_cast<std::uint32_t>(1 + random() % 12);
    const auto colors = static_cast<std::uint32_t>(1 + random() % (round % 3 == 0 ? 140 : 9));
    const Edges edges = RandomMultigraph(random, lefts, rights, random() % 150);
    SCOPED_TRACE(round);
    ExpectEquitable(edges, coloring.Color(edges, lefts, rights, colors), colors);
  }
}

TEST(EdgeColoring, IsOptimalWhereEveryVertexIsFull) {
  std::mt19937 random(2);
  EdgeColoring coloring;
  for (const auto& [vertices, degree, colors] : {std::tuple{64U, 32U, 32U},
                                                 {64U, 31U, 31U},
                                                 {9U, 64U, 64U},
                                                 {30U, 65U, 65U},
                                                 {16U, 128U, 128U},
                                                 {12U, 200U, 200U},
                                                 {64U, 64U, 31U},
                                                 {20U, 96U, 32U},
                                                 {300U, 40U, 8U},
                                                 {500U, 7U, 7U}}) {
    for (int round = 0; round < 4; ++round) {
      Edges edges = RandomRegular(random, vertices, degree);
      if (round % 2 == 1) std::shuffle(edges.begin(), edges.end(), random);
      SCOPED_TRACE(testing::Message() << vertices << " " << degree << " " << colors);
      EXPECT_EQ(ExpectEquitable(edges, coloring.Color(edges, vertices, vertices, colors), colors),
                (degree + colors - 1) / colors);
    }
  }
}

TEST(EdgeColoring, IsOptimalOnAdversarialMultigraphs) {
  EdgeColoring coloring;
  const auto expect_optimal = [&](const Edges& edges, std::uint32_t vertices,
                                  std::uint32_t colors) {
    EXPECT_EQ(ExpectEquitable(edges, coloring.Color(edges, vertices, vertices, colors), colors),
              (MaxDegree(edges) + colors - 1) / colors);
  };
  for (const std::uint32_t colors : {1U, 2U, 3U, 7U, 32U, 64U, 65U, 129U}) {
    SCOPED_TRACE(colors);
    Edges parallel(3 * colors + 1, {0, 0});  // all between one pair
    expect_optimal(parallel, 1, colors);
    Edges incast;  // all to one vertex
    for (std::uint32_t i = 0; i < 5 * colors; ++i) incast.push_back({i % 17, 3});
    expect_optimal(incast, 17, colors);
    Edges rotations;  // round by round, so that first-fit colours each round separately
    for (std::uint32_t shift = 0; shift < colors; ++shift) {
      for (std::uint32_t i = 0; i < 16; ++i) rotations.push_back({i, (i + shift) % 16});
    }
    expect_optimal(rotations, 16, colors);
    Edges line;  // a long alternating path, then the edge that closes it
    for (std::uint32_t i = 0; i < 200; ++i) {
      line.push_back({i, i});
      line.push_back({i, (i + 1) % 200});
    }
    expect_optimal(line, 200, colors);
  }
}

// The minimum over all colourings of the maximum number of edges of one colour at a vertex.
std::uint32_t BruteForce(const Edges& edges, std::uint32_t colors) {
  std::vector<std::uint32_t> left(8 * colors);
  std::vector<std::uint32_t> right(8 * colors);
  auto best = static_cast<std::uint32_t>(edges.size());
  const auto place = [&](const auto& self, std::size_t i, std::uint32_t worst) -> void {
    if (worst >= best) return;
    if (i == edges.size()) {
      best = worst;
      return;
    }
    for (std::uint32_t color = 0; color < colors; ++color) {
      const std::uint32_t there = std::max(++left[edges[i].left * colors + color],
                                           ++right[edges[i].right * colors + color]);
      self(self, i + 1, std::max(worst, there));
      --left[edges[i].left * colors + color];
      --right[edges[i].right * colors + color];
    }
  };
  place(place, 0, 0);
  return best;
}

TEST(EdgeColoring, AgreesWithBruteForceOnSmallMultigraphs) {
  std::mt19937 random(3);
  EdgeColoring coloring;
  for (int round = 0; round < 300; ++round) {
    const auto colors = static_cast<std::uint32_t>(1 + random() % 3);
    const Edges edges =
        RandomMultigraph(random, 1 + random() % 4, 1 + random() % 4, 1 + random() % 9);
    SCOPED_TRACE(round);
    EXPECT_EQ(ExpectEquitable(edges, coloring.Color(edges, 4, 4, colors), colors),
              BruteForce(edges, colors));
  }
}

TEST(EdgeColoring, WorksPastTheReachOf16BitIds) {
  std::mt19937 random(4);
  EdgeColoring coloring;
  const Edges edges = RandomMultigraph(random, 40'000, 40'000, 200'000);
  ExpectEquitable(edges, coloring.Color(edges, 40'000, 40'000, 6), 6);
}

TEST(EdgeColoring, RefusesNoColors) {
  EdgeColoring coloring;
  EXPECT_DEATH(coloring.Color({}, 1, 1, 0), "colors=0");
}

// Compares chains that are followed together with chains that are followed one by one.
TEST(ChainWalk, FindsTheShortestChain) {
  constexpr std::uint32_t kVertices = 40;
  constexpr std::uint32_t kColors = 6;
  std::mt19937 random(5);
  for (int round = 0; round < 500; ++round) {
    std::vector<std::uint16_t> neighbors(kVertices * kColors, kNoVertex<std::uint16_t>);
    const ColorTable<std::uint16_t> table{neighbors.data(), kColors};
    for (std::uint32_t color = 0; color < kColors; ++color) {
      for (int i = 0; i < 18; ++i) {
        const auto left = static_cast<std::uint32_t>(random() % (kVertices / 2));
        const auto right = static_cast<std::uint32_t>(kVertices / 2 + random() % (kVertices / 2));
        if (table.At(left, color) != kNoVertex<std::uint16_t>) continue;
        if (table.At(right, color) != kNoVertex<std::uint16_t>) continue;
        table.At(left, color) = static_cast<std::uint16_t>(right);
        table.At(right, color) = static_cast<std::uint16_t>(left);
      }
    }
    Chains chains;
    ChainEnd expected{0, kVertices + 1};
    const auto wanted = static_cast<std::uint32_t>(1 + random() % kMaxChains);
    for (int tries = 0; chains.count < wanted && tries < 400; ++tries) {
      const auto from = static_cast<std::uint32_t>(random() % kVertices);
      const auto a = static_cast<std::uint32_t>(random() % kColors);
      const auto b = static_cast<std::uint32_t>(random() % kColors);
      if (a == b || table.At(from, a) == kNoVertex<std::uint16_t>) continue;
      if (table.At(from, b) != kNoVertex<std::uint16_t>) continue;  // it might be a cycle
      std::uint32_t steps = 0;
      std::uint32_t at = from;
      for (; table.At(at, steps % 2 == 0 ? a : b) != kNoVertex<std::uint16_t>; ++steps) {
        at = table.At(at, steps % 2 == 0 ? a : b);
      }
      if (steps < expected.steps) expected = {chains.count, steps};
      chains.Add(from, a, b);
    }
    if (chains.count == 0) continue;
    const ChainEnd found = FindShortest(table, chains);
    EXPECT_EQ(found.chain, expected.chain);
    EXPECT_EQ(found.steps, expected.steps);
  }
}

}  // namespace
}  // namespace espalier::graph
