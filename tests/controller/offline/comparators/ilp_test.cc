#include "controller/offline/comparators/ilp.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>

#include "controller/offline/evaluation/solver.h"
#include "tests/controller/offline/comparators/small_fabric.h"
#include "tests/controller/routing/load_oracle.h"

namespace espalier::offline {
namespace {

using controller::Assignment;
using controller::BruteForce;
using controller::Commodities;
using controller::Fabric;
using controller::kNoPath;
using controller::RandomFlows;

Assignment SolveIlp(Fabric& fabric, const Commodities& flows) {
  const IlpProgram program(fabric.view, flows);
  std::string solution;
  if (!program.text().empty()) {
    const auto solved = SolveWithCbc(program.text());
    EXPECT_TRUE(solved.has_value()) << solved.error().message;
    solution = solved.value_or("");
  }
  const auto assignment = program.ReadSolution(solution);
  EXPECT_TRUE(assignment.has_value()) << assignment.error().message;
  return assignment.value_or(Assignment{});
}

TEST(IlpProgram, IsTheOptimumOfBruteForce) {
  std::mt19937 random(1);
  for (int round = 0; round < 24; ++round) {
    auto fabric = SmallFabric(random, round);
    Commodities flows = RandomFlows(random, 3, 2);
    if (round % 4 == 1) flows[0].subflows = 2;
    SCOPED_TRACE(round);
    const Assignment assignment = SolveIlp(*fabric, flows);
    ExpectValid(*fabric, flows, assignment);
    EXPECT_EQ(assignment.max_load, BruteForce(*fabric, flows));
  }
}

TEST(IlpProgram, RefusesInvalidSolutions) {
  auto fabric = Fabric::LeafSpine(2, 2);
  const Commodities flows(3, {.source = 0, .destination = 1});
  const IlpProgram program(fabric->view, flows);
  const std::string good = "Optimal - objective value 2\n 0 x0_0 2 0\n 1 x0_1 1 0\n";
  const auto assignment = program.ReadSolution(good);
  ASSERT_TRUE(assignment.has_value());
  EXPECT_EQ(std::ranges::count(assignment->paths, 0), 2);
  for (const char* bad :
       {"", "Infeasible\n", "Stopped on time\n 0 x0_0 2 0\n", "\n 0 x0_0 2 0\n 1 x0_1 2 0\n",
        "\n 0 x0_0 2 0\n 1 x1_0 1 0\n", "\n 0 x0_0 2 0\n 1 x0_7 1 0\n", "\n 0 x0_0 -3 0\n",
        "\n 0 x0_0 1e9 0\n"}) {
    const auto refused = program.ReadSolution(bad);
    ASSERT_FALSE(refused.has_value()) << bad;
    EXPECT_EQ(refused.error().code, ErrorCode::kInternal);
  }
}

// A group without a usable path is left out, and its flows have no path; without any group there is
// nothing to solve.
TEST(IlpProgram, LeavesOutFlowsThatHaveNoChoice) {
  auto fabric = Fabric::LeafSpine(2, 3);
  fabric->Fail("leaf2--spine0");
  fabric->Fail("leaf2--spine1");
  const Commodities none = {{.source = 0, .destination = 0}, {.source = 0, .destination = 2}};
  const IlpProgram empty(fabric->view, none);
  EXPECT_EQ(empty.text(), "");
  const auto unassigned = empty.ReadSolution("");
  ASSERT_TRUE(unassigned.has_value());
  EXPECT_EQ(unassigned->paths, (std::vector<std::int32_t>{kNoPath, kNoPath}));
  Commodities some = none;
  some.push_back({.source = 0, .destination = 1});
  const Assignment solved = SolveIlp(*fabric, some);
  EXPECT_EQ(solved.PathsOf(0).front(), kNoPath);
  EXPECT_EQ(solved.PathsOf(1).front(), kNoPath);
  EXPECT_NE(solved.PathsOf(2).front(), kNoPath);
}

// Two flows of two subflows and two paths: each flow takes both.
TEST(IlpProgram, SpreadsTheSubflowsOfAFlow) {
  auto fabric = Fabric::LeafSpine(2, 2);
  const Commodities flows(2, {.source = 0, .destination = 1, .subflows = 2});
  const IlpProgram program(fabric->view, flows);
  const auto assignment = program.ReadSolution("Optimal\n 0 x0_0 2 0\n ** 1 x0_1 2 0\n");
  ASSERT_TRUE(assignment.has_value()) << assignment.error().message;
  for (std::size_t flow : {0U, 1U}) {
    EXPECT_NE(assignment->PathsOf(flow)[0], assignment->PathsOf(flow)[1]);
  }
  ExpectValid(*fabric, flows, *assignment);
}

}  // namespace
}  // namespace espalier::offline
