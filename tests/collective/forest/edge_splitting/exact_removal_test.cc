#include "collective/forest/edge_splitting/exact_removal.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "collective/forest/edge_splitting/elimination_order.h"
#include "collective/forest/edge_splitting/pairing.h"
#include "tests/collective/forest/edge_splitting/random_split_graph.h"
#include "tests/collective/forest/reference_cases.h"
#include "tests/seeds.h"

namespace espalier::forest {
namespace {

// Makes a wrong guess: parts of the right one, and dropped capacity.
std::vector<Split> MakePoorGuess(const RandomSplitGraph& made, std::int32_t node,
                                 std::mt19937_64& random) {
  const std::vector<std::int32_t> component(static_cast<std::size_t>(made.problem.rank_count), 0);
  std::vector<Split> guess = GuessSwitchPairing(made.problem, made.graph, node, component);
  std::erase_if(guess, [&](const Split&) { return random() % 3 == 0; });
  return guess;
}

TEST(RemoveExactly, LeavesTheNodeBareAndAllFlowsWhole) {
  for (const std::uint64_t seed : SeedsToTry(1, 150)) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    auto made = MakeRandomSplitGraph(random);
    if (!made || made->problem.node_count == made->problem.rank_count) continue;
    const auto before = MatrixOf(made->graph);
    const Control control;
    Verification verification(made->problem, made->graph, made->need, control);
    const std::int32_t node = made->problem.node_count - 1;
    FallbackCounters counters;
    const auto removal = RemoveExactly(made->problem, made->graph, verification, node,
                                       MakePoorGuess(*made, node, random), counters);
    ASSERT_TRUE(removal.has_value()) << removal.error().message;
    const NodeTotals totals = TotalsOf(made->graph, node);
    EXPECT_EQ(totals.in + totals.out, 0);
    for (std::int32_t rank = 0; rank < made->problem.rank_count; ++rank) {
      EXPECT_EQ(DeficitOf(made->graph, rank, made->need), 0);
    }
    for (std::size_t i = 0; i < removal->splits.size(); ++i) {
      EXPECT_GT(removal->splits[i].amount, 0);
      if (i == 0) continue;
      const Split& last = removal->splits[i - 1];
      EXPECT_LT(std::pair(last.from, last.to),
                std::pair(removal->splits[i].from, removal->splits[i].to));
    }
    made->graph.Undo(*removal);
    EXPECT_EQ(MatrixOf(made->graph), before);
  }
}

// All nodes but one, ranks as well, whose supply comes from the source.
TEST(RemoveExactly, RemovesOneNodeAfterAnother) {
  for (const std::uint64_t seed : SeedsToTry(1, 60)) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    auto made = MakeRandomSplitGraph(random);
    if (!made) continue;
    const auto before = MatrixOf(made->graph);
    const Control control;
    Verification verification(made->problem, made->graph, made->need, control);
    FallbackCounters counters;
    std::vector<Removal> removals;
    for (std::int32_t node = made->problem.node_count - 1; node > 0; --node) {
      auto removal = RemoveExactly(made->problem, made->graph, verification, node, {}, counters);
      ASSERT_TRUE(removal.has_value()) << removal.error().message;
      verification.MarkRemoved(node, true);
      const NodeTotals totals = TotalsOf(made->graph, node);
      EXPECT_EQ(totals.in + totals.out, 0);
      for (std::int32_t rank = 0; rank < std::min(node, made->problem.rank_count); ++rank) {
        EXPECT_EQ(DeficitOf(made->graph, rank, made->need), 0) << rank << " without " << node;
      }
      for (const Split& split : removal->splits) {
        EXPECT_FALSE(split.from == kSource && split.to == kSource);
      }
      removals.push_back(std::move(*removal));
    }
    while (!removals.empty()) {
      made->graph.Undo(removals.back());
      removals.pop_back();
    }
    EXPECT_EQ(MatrixOf(made->graph), before);
  }
}

// If both are permissible, no route goes down to a leaf and up again.
TEST(RemoveExactly, DropsCapacityRatherThanMakeValleys) {
  for (const std::string& name : {std::string("clos4x3s2"), std::string("clos4x3s4")}) {
    SCOPED_TRACE(name);
    const Problem problem = MakeReferenceProblem(name);
    const TreeCount count = *CountTrees(problem, *ComputeOptimality(problem));
    SplitGraph graph(problem, count);
    const Control control;
    Verification verification(problem, graph, problem.TotalWeight() * count.trees_per_weight,
                              control);
    const std::vector<std::int32_t> leaves = GroupSwitches(problem).front();
    for (const std::int32_t leaf : leaves) {
      FallbackCounters counters;
      const auto removal = RemoveExactly(problem, graph, verification, leaf, {}, counters);
      ASSERT_TRUE(removal.has_value());
      verification.MarkRemoved(leaf, true);
      std::int64_t useful = 0;
      for (const Split& split : removal->splits) {
        if (problem.IsRank(split.from) || problem.IsRank(split.to)) {
          useful += split.from != split.to ? split.amount : 0;
        } else {
          EXPECT_EQ(split.from, split.to) << "a valley at " << leaf;
        }
      }
      EXPECT_GT(useful, 0);
      EXPECT_GT(counters.exact_gammas, 0);
    }
  }
}

TEST(RemoveExactly, EndsWhenCancelled) {
  const Problem problem = MakeReferenceProblem("clos4x3s2");
  const TreeCount count = *CountTrees(problem, *ComputeOptimality(problem));
  SplitGraph graph(problem, count);
  const Control control{.cancelled = [] { return true; }};
  Verification verification(problem, graph, problem.TotalWeight() * count.trees_per_weight,
                            control);
  FallbackCounters counters;
  const auto removal =
      RemoveExactly(problem, graph, verification, problem.rank_count, {}, counters);
  ASSERT_FALSE(removal.has_value());
  EXPECT_EQ(removal.error().code, ErrorCode::kUnavailable);
}

}  // namespace
}  // namespace espalier::forest
