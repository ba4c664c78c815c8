// Compares assignments and bounds with linear and integer programs that cbc solves.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "controller/offline/comparators/ilp.h"
#include "controller/offline/evaluation/solver.h"
#include "controller/routing/assigner.h"
#include "controller/routing/bounds/load_bounds.h"
#include "tests/controller/routing/load_oracle.h"

namespace espalier::controller {
namespace {

// Rounds up to whole numbers of shares; cbc prints eight digits.
double RoundUp(double load, std::uint32_t subflows) {
  return std::ceil(load * subflows - 1e-5) / subflows;
}

TEST(Optimality, IsWithinOneFlowOfTheProgramsBoundWithUpToATenthOfTheLinksFailed) {
  std::mt19937 random(11);
  int at_bound = 0;
  constexpr int kRounds = 10;
  for (int round = 0; round < kRounds; ++round) {
    auto fabric = Fabric::LeafSpine(8, 10);
    fabric->FailSome(random, 1 + static_cast<std::uint32_t>(round));
    const Commodities flows = RandomFlows(random, 10, 6 + 2 * (static_cast<unsigned>(round) % 5));
    Assigner assigner(fabric->view);
    const Assignment result = assigner.Optimal(flows);
    SCOPED_TRACE(round);
    ExpectValid(*fabric, flows, result);
    const double bound = RoundUp(FractionalBound(*fabric, flows), 1);
    EXPECT_LE(result.lower_bound.Value(), bound);
    EXPECT_GE(result.max_load.Value(), bound);
    EXPECT_LE(result.max_load.Value(), bound + 1);
    at_bound += result.max_load.Value() == bound ? 1 : 0;
  }
  RecordProperty("at_bound", at_bound);
  EXPECT_GE(at_bound, kRounds - 1);
}

TEST(Optimality, SplitIsNeverWorseAndWithinOneShareOfTheProgramsBound) {
  std::mt19937 random(12);
  for (int round = 0; round < 6; ++round) {
    auto fabric = Fabric::LeafSpine(7, 6);
    if (round >= 2) fabric->FailSome(random, 2 * static_cast<std::uint32_t>(round));
    Commodities flows = RandomFlows(random, 6, 5 + static_cast<std::uint32_t>(round));
    Assigner assigner(fabric->view);
    const Load whole = assigner.Optimal(flows).max_load;
    const double fraction = FractionalBound(*fabric, flows);
    for (const std::uint32_t subflows : {2U, 4U, 8U, 16U}) {
      for (Commodity& flow : flows) flow.subflows = subflows;
      const Assignment result = assigner.Optimal(flows);
      SCOPED_TRACE(testing::Message() << "round " << round << ", " << subflows << " subflows");
      ExpectValid(*fabric, flows, result);
      EXPECT_LE(result.max_load, whole);
      EXPECT_GE(result.max_load.Value(), RoundUp(fraction, subflows) - 1e-9);
      EXPECT_LE(result.lower_bound.Value(), RoundUp(fraction, subflows) + 1e-9);
      EXPECT_LE(result.max_load.Value(), fraction + 1.0 / subflows + 1e-5);
    }
  }
}

// The bound by cuts never exceeds what an integer program finds.
TEST(Optimality, BoundHoldsOnFabricsOfUnequalRatesAndOfThreeTiers) {
  std::mt19937 random(13);
  for (int round = 0; round < 12; ++round) {
    auto spec = round % 2 == 0
                    ? *fabric::BuildLeafSpine({.spines = 4, .leaves = 5, .hosts_per_leaf = 1})
                    : *fabric::BuildFatTree({.k = 4});
    for (fabric::Link& link : spec.links) {
      if (random() % 4 == 0) link.rate = BitsPerSecond{40'000'000'000};
      if (random() % 16 == 0) link.state = fabric::LinkState::kDown;
    }
    Fabric fabric(std::move(spec));
    Commodities flows = RandomFlows(random, fabric.view.leaf_count(), 3);
    if (round % 3 == 0) {
      for (Commodity& flow : flows) flow.subflows = 2;
    }
    Assigner assigner(fabric.view);
    const Assignment result = assigner.Optimal(flows);
    SCOPED_TRACE(round);
    ExpectValid(fabric, flows, result);
    const double fraction = FractionalBound(fabric, flows);
    EXPECT_GE(result.max_load.Value(), fraction - 1e-6);
    const offline::IlpProgram program(fabric.view, flows);
    const auto solution = offline::SolveWithCbc(program.text());
    ASSERT_TRUE(solution.has_value());
    const auto best = program.ReadSolution(*solution);
    ASSERT_TRUE(best.has_value()) << best.error().message;
    EXPECT_LE(result.lower_bound, best->max_load);
    EXPECT_GE(best->max_load.Value(), fraction - 1e-6);
    EXPECT_LE(result.max_load.Value(), best->max_load.Value() + 1) << fraction;
  }
}

}  // namespace
}  // namespace espalier::controller
