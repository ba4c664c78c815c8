#include "collective/forest/model/routable.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "collective/forest/model/problem.h"
#include "tests/seeds.h"

namespace espalier::forest {
namespace {

// Builds a chain of nodes from text: 'r' a rank, 'h' a switch of a host, a digit a fabric switch in
// that tier. Each is a node of its own, unless `same` joins two places.
bool IsRoutableChain(const std::string& chain, int same_as_first = -1) {
  Problem problem;
  std::vector<std::int32_t> hops;
  const auto node_at = [&](std::size_t place) {
    return static_cast<std::int32_t>(static_cast<int>(place) == same_as_first ? 1U : place);
  };
  for (std::size_t i = 0; i < chain.size(); ++i) {
    problem.in_fabric.push_back(std::isdigit(chain[i]) != 0);
    problem.tier.push_back(std::isdigit(chain[i]) != 0 ? chain[i] - '0' : 0);
    if (i == 0) continue;
    problem.arcs.push_back({node_at(i - 1), node_at(i), 1});
    hops.push_back(static_cast<std::int32_t>(i - 1));
  }
  problem.node_count = static_cast<std::int32_t>(chain.size());
  return IsRoutable(problem, hops);
}

TEST(IsRoutable, AcceptsRoutesUpAcrossAndDown) {
  for (const char* chain : {"rr", "r1r", "rhhr", "rh1hr", "r121r", "r1221r", "r12321r", "rh123hr",
                            "r12r", "r21r", "r22r", "rh11hr"}) {
    EXPECT_TRUE(IsRoutableChain(chain)) << chain;
  }
}

TEST(IsRoutable, RefusesValleysAndSecondPassesThroughTheFabric) {
  for (const char* chain : {"r212r", "r12121r", "r2112r", "r1h1r", "r12h21r", "r1223r", "r2213r",
                            "r12212r", "r3213r"}) {
    EXPECT_FALSE(IsRoutableChain(chain)) << chain;
  }
}

TEST(IsRoutable, RefusesASwitchTwice) {
  EXPECT_TRUE(IsRoutableChain("r121r"));
  EXPECT_FALSE(IsRoutableChain("r121r", 3));
}

// The definition: the fabric's tiers form one run that rises, stays level and falls.
TEST(IsRoutable, IsTheDefinitionOnRandomChains) {
  for (const std::uint64_t seed : SeedsToTry(1, 4000)) {
    std::mt19937_64 random(seed);
    std::string chain = "r";
    for (std::size_t i = 1 + random() % 7; i > 0; --i) chain += "h123"[random() % 4];
    chain += "r";
    const std::size_t first = chain.find_first_of("123");
    const std::size_t last = chain.find_last_of("123");
    bool expected = true;
    if (first != std::string::npos) {
      const std::string fabric = chain.substr(first, last - first + 1);
      const auto top = std::ranges::max_element(fabric);
      const auto fall = std::find_if(top, fabric.end(), [&](char c) { return c != *top; });
      // It rises strictly, stays at the top and falls strictly.
      expected = fabric.find('h') == std::string::npos &&
                 std::adjacent_find(fabric.begin(), top, std::greater_equal{}) == top &&
                 (fall == fabric.end() ||
                  std::adjacent_find(fall, fabric.end(), std::less_equal{}) == fabric.end());
    }
    EXPECT_EQ(IsRoutableChain(chain), expected) << "seed " << seed << ": " << chain;
  }
}

// An edge counts if its own units take a route that is not routable, not if another edge's units
// do.
TEST(CountUnroutableEdges, CountsEdgesByTheUnitsThatTheyTake) {
  Problem problem;
  problem.node_count = 5;  // two ranks, a spine between leaves and a leaf between spines
  problem.rank_count = 2;
  problem.in_fabric = {false, false, true, true, true};
  problem.tier = {0, 0, 2, 1, 2};
  problem.arcs = {{0, 2, 9}, {2, 1, 9}, {2, 3, 9}, {3, 4, 9}, {4, 1, 9}};
  Forest forest;
  forest.rank_count = 2;
  forest.classes = {{0, 3}, {0, 2}, {0, 4}, {0, 1}};
  for (int i = 0; i < 4; ++i) forest.parents.insert(forest.parents.end(), {kNoRank, 0});
  forest.routes.AddArc(0, 1);
  forest.routes.AddRoute(3, std::array{0, 1});
  forest.routes.AddRoute(4, std::array{0, 2, 3, 4});  // a valley: the second class, half the third
  forest.routes.AddRoute(3, std::array{0, 1});
  forest.routes.Index(2);
  EXPECT_EQ(CountUnroutableEdges(problem, forest), 2);
  problem.tier[3] = 3;
  problem.tier[4] = 2;
  EXPECT_EQ(CountUnroutableEdges(problem, forest), 0);
}

}  // namespace
}  // namespace espalier::forest
