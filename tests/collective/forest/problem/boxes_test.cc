#include "collective/forest/problem/boxes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "collective/forest/problem/build_problem.h"
#include "tests/collective/forest/random_problem.h"
#include "tests/collective/forest/reference_cases.h"
#include "tests/seeds.h"

namespace espalier::forest {
namespace {

std::vector<std::size_t> SizesOf(const Boxes& boxes) {
  std::vector<std::size_t> sizes;
  for (const std::vector<Rank>& ranks : boxes.ranks) sizes.push_back(ranks.size());
  return sizes;
}

// Checks the definition: lists agree with box_of, and arcs join two boxes only over the fabric.
void ExpectDivision(const Problem& problem, const Boxes& boxes) {
  ASSERT_EQ(boxes.box_of.size(), static_cast<std::size_t>(problem.node_count));
  ASSERT_EQ(boxes.ranks.size(), boxes.inner.size());
  EXPECT_GE(boxes.ranks.size(), 2U);
  EXPECT_GT(std::ranges::max(SizesOf(boxes)), 1U);
  std::vector<std::int32_t> stated(boxes.box_of.size(), Boxes::kFabric);
  for (std::size_t b = 0; b < boxes.ranks.size(); ++b) {
    EXPECT_FALSE(boxes.ranks[b].empty());
    EXPECT_TRUE(std::ranges::is_sorted(boxes.ranks[b]));
    EXPECT_TRUE(std::ranges::is_sorted(boxes.inner[b]));
    for (const Rank rank : boxes.ranks[b]) stated[rank] = static_cast<std::int32_t>(b);
    for (const std::int32_t node : boxes.inner[b]) {
      EXPECT_FALSE(problem.IsRank(node));
      stated[static_cast<std::size_t>(node)] = static_cast<std::int32_t>(b);
    }
  }
  EXPECT_EQ(stated, boxes.box_of);
  for (std::size_t rank = 0; rank < static_cast<std::size_t>(problem.rank_count); ++rank) {
    EXPECT_NE(boxes.box_of[rank], Boxes::kFabric);
  }
  for (const Arc& arc : problem.arcs) {
    const std::int32_t from = boxes.box_of[static_cast<std::size_t>(arc.tail)];
    const std::int32_t to = boxes.box_of[static_cast<std::size_t>(arc.head)];
    EXPECT_TRUE(from == to || from == Boxes::kFabric || to == Boxes::kFabric);
  }
}

TEST(FindBoxes, FindsTheHostsOfMachinesFirst) {
  struct Case {
    std::string name;
    std::size_t boxes;
    std::size_t ranks;
  };
  for (const Case& c : {Case{"a100_4", 4, 8}, Case{"h100_2", 2, 8}, Case{"mi250_2", 2, 16},
                        Case{"clos4x3s2", 4, 3}}) {
    SCOPED_TRACE(c.name);
    const Problem problem = MakeReferenceProblem(c.name);
    const std::vector<Boxes> found = FindBoxes(problem);
    ASSERT_FALSE(found.empty());
    ExpectDivision(problem, found.front());
    EXPECT_EQ(SizesOf(found.front()), std::vector<std::size_t>(c.boxes, c.ranks));
  }
}

TEST(FindBoxes, FindsNoneWhereThereAreNoSwitchesOrNothingThatJoinsBoxes) {
  EXPECT_TRUE(FindBoxes(MakeReferenceProblem("hcube3")).empty());
  EXPECT_TRUE(FindBoxes(MakeReferenceProblem("a100_1")).empty());
}

TEST(FindBoxes, DividesRandomGraphs) {
  std::size_t divisions = 0;
  const std::vector<std::uint64_t> seeds = SeedsToTry(1, 200);
  for (const std::uint64_t seed : seeds) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    const auto problem = BuildProblem(BuildTopology(MakeRandomGraph({}, random)), {});
    ASSERT_TRUE(problem.has_value());
    const std::vector<Boxes> found = FindBoxes(*problem);
    for (const Boxes& boxes : found) ExpectDivision(*problem, boxes);
    divisions += found.size();
  }
  EXPECT_TRUE(divisions > 0 || seeds.size() == 1);
}

}  // namespace
}  // namespace espalier::forest
