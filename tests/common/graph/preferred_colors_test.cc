#include "common/graph/preferred_colors.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <vector>

#include "tests/seeds.h"

namespace espalier::graph {
namespace {

constexpr std::uint32_t kVertices = 9;
constexpr std::uint32_t kColors = 6;

bool IsProper(const std::vector<BipartiteEdge>& edges, const std::vector<std::uint32_t>& colors) {
  std::set<std::pair<std::uint32_t, std::uint32_t>> left;
  std::set<std::pair<std::uint32_t, std::uint32_t>> right;
  for (std::size_t edge = 0; edge < edges.size(); ++edge) {
    if (!left.insert({edges[edge].left, colors[edge]}).second) return false;
    if (!right.insert({edges[edge].right, colors[edge]}).second) return false;
  }
  return true;
}

// The most that an exchange of two colours on one connected part of their edges gains, by a search
// of its own.
int BestGain(const std::vector<BipartiteEdge>& edges, const std::vector<std::uint32_t>& colors,
             const std::vector<std::uint8_t>& is_preferred,
             const std::vector<std::uint8_t>& is_marked) {
  int best = 0;
  for (std::uint32_t other = 0; other < kColors; ++other) {
    for (std::uint32_t preferred = 0; preferred < kColors; ++preferred) {
      if (is_preferred[other] != 0 || is_preferred[preferred] == 0) continue;
      std::vector<std::uint32_t> part(2 * kVertices);  // by vertex, merged along edges
      for (std::uint32_t vertex = 0; vertex < part.size(); ++vertex) part[vertex] = vertex;
      const auto is_one = [&](std::size_t edge) {
        return colors[edge] == other || colors[edge] == preferred;
      };
      for (std::size_t edge = 0; edge < edges.size(); ++edge) {
        if (!is_one(edge)) continue;
        const std::uint32_t from = part[kVertices + edges[edge].right];
        std::ranges::replace(part, from, part[edges[edge].left]);
      }
      std::map<std::uint32_t, int> gains;
      for (std::size_t edge = 0; edge < edges.size(); ++edge) {
        if (!is_one(edge) || is_marked[edge] == 0) continue;
        gains[part[edges[edge].left]] += colors[edge] == other ? 1 : -1;
      }
      for (const auto& [root, gain] : gains) best = std::max(best, gain);
    }
  }
  return best;
}

TEST(PreferredColors, ExchangeUntilNoChainGains) {
  int gained = 0;
  for (const auto seed : SeedsToTry(1, 200)) {
    SCOPED_TRACE(seed);
    std::mt19937 random(static_cast<std::uint32_t>(seed));
    std::vector<BipartiteEdge> edges;
    std::vector<std::uint32_t> colors;
    for (std::uint32_t color = 0; color < kColors; ++color) {
      std::vector<std::uint32_t> to(kVertices);
      for (std::uint32_t vertex = 0; vertex < kVertices; ++vertex) to[vertex] = vertex;
      std::ranges::shuffle(to, random);
      for (std::uint32_t vertex = 0; vertex < kVertices; ++vertex) {
        if (random() % 5 == 0) continue;  // some are missing, so that chains have ends
        edges.push_back({vertex, to[vertex]});
        colors.push_back(color);
      }
    }
    std::vector<std::uint8_t> is_preferred(kColors);
    std::vector<std::uint8_t> is_marked(edges.size());
    for (auto& one : is_preferred) one = static_cast<std::uint8_t>(random() % 2);
    for (auto& one : is_marked) one = static_cast<std::uint8_t>(random() % 3 == 0 ? 1 : 0);
    const auto misplaced = [&] {
      int count = 0;
      for (std::size_t edge = 0; edge < edges.size(); ++edge) {
        count += is_marked[edge] != 0 && is_preferred[colors[edge]] == 0 ? 1 : 0;
      }
      return count;
    };
    const int before = misplaced();
    PreferredColors workspace;
    workspace.Improve(edges, kVertices, kVertices, is_preferred, is_marked, colors);
    EXPECT_TRUE(IsProper(edges, colors));
    EXPECT_LE(misplaced(), before);
    EXPECT_EQ(BestGain(edges, colors, is_preferred, is_marked), 0);
    gained += before - misplaced();
  }
  EXPECT_GT(gained, 200);
}

}  // namespace
}  // namespace espalier::graph
