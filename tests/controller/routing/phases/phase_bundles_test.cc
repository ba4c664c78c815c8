#include "controller/routing/phases/phase_bundles.h"

#include <gtest/gtest.h>

#include <memory>

#include "controller/routing/phases/phase_loads.h"
#include "tests/controller/routing/phases/training_jobs.h"
#include "tests/seeds.h"

namespace espalier::controller {
namespace {

std::vector<std::uint32_t> HomesOf(const PhaseProblem& problem) {
  std::vector<std::uint32_t> homes;
  for (std::uint32_t flow = 0; flow < problem.flow_count(); ++flow) {
    homes.push_back(problem.HomeOf(flow));
  }
  return homes;
}

// Loads of all links under some routes.
PhaseLoads LoadsUnder(const PhaseProblem& problem, const PhaseGoals& goals,
                      std::span<const std::uint32_t> routes) {
  PhaseLoads loads(problem, goals);
  for (std::uint32_t flow = 0; flow < problem.flow_count(); ++flow) {
    if (problem.IsPlaced(flow)) loads.Place(flow, routes[flow]);
  }
  return loads;
}

TEST(PhaseBundles, HaveTheLoadsOfTheirFlows) {
  const auto fabric = Fabric::LeafSpine(8, 8);
  std::mt19937 random(3);
  const PhaseCase input = PlaceTrainingJobs(
      random, {.leaves = 8, .hosts_per_leaf = 2, .nics = 4, .copies = 2, .stages = {2, 3}});
  const PhaseProblem problem(fabric->view, {}, input.flows, input.jobs);
  const auto bundles = PhaseBundles::Build(problem);
  ASSERT_TRUE(bundles);
  const PhaseProblem& small = bundles->small();
  EXPECT_EQ(small.flow_count() * 4, problem.flow_count());
  std::vector<std::uint32_t> routes;
  for (std::uint32_t i = 0; i < small.flow_count(); ++i) {
    ASSERT_EQ(small.RoutesOf(i).size(), 2U);
    routes.push_back(static_cast<std::uint32_t>(random() % 2));
  }
  const PhaseGoals goals{std::vector<std::int64_t>(problem.link_count()), {}};
  const PhaseLoads of_bundles = LoadsUnder(small, goals, routes);
  const PhaseLoads of_flows = LoadsUnder(problem, goals, bundles->Expand(routes));
  const Clos& clos = *fabric->view.clos();
  for (std::uint32_t leaf = 0; leaf < 8; ++leaf) {
    for (std::uint32_t spine = 0; spine < 8; ++spine) {
      const std::uint32_t first = leaf * 8 + spine / 4 * 4;
      EXPECT_EQ(of_flows.WorstOf(clos.up[leaf * 8 + spine]), of_bundles.WorstOf(clos.up[first]));
      EXPECT_EQ(of_flows.WorstOf(clos.down[leaf * 8 + spine]),
                of_bundles.WorstOf(clos.down[first]));
    }
  }
}

TEST(PhaseBundles, KeepPresentPathsOfBundles) {
  const auto fabric = Fabric::LeafSpine(8, 8);
  std::mt19937 random(5);
  PhaseCase input = PlaceTrainingJobs(
      random, {.leaves = 8, .hosts_per_leaf = 2, .nics = 4, .copies = 2, .stages = {2, 3}});
  // Bundles on the even spines or on the odd ones.
  for (std::size_t i = 0; i < input.flows.size(); i += 4) {
    const auto odd = static_cast<std::int32_t>(random() % 2);
    for (std::size_t k = 0; k < 4; ++k) {
      input.flows[i + k].path = 2 * static_cast<std::int32_t>(3 - k) + odd;
    }
  }
  const PhaseProblem problem(fabric->view, {}, input.flows, input.jobs);
  const auto bundles = PhaseBundles::Build(problem);
  ASSERT_TRUE(bundles);
  EXPECT_EQ(bundles->Expand(HomesOf(bundles->small())), HomesOf(problem));
}

TEST(PhaseBundles, LeaveOutTheRestAndCountUnmovableFlowsAsBaseLoad) {
  const auto fabric = Fabric::LeafSpine(4, 3);
  PhaseCase input;
  PhasedJob job{{{}}};
  for (int i = 0; i < 41; ++i) job.phases[0].push_back(input.Add(0, 1));
  const auto fixed = input.Add(0, 1, 2);
  input.flows[fixed].movable = false;
  input.jobs = {job};
  const PhaseProblem problem(fabric->view, {}, input.flows, input.jobs);
  const auto bundles = PhaseBundles::Build(problem);
  ASSERT_TRUE(bundles);
  const PhaseProblem& small = bundles->small();
  EXPECT_EQ(small.flow_count(), 20U);
  const Clos& clos = *fabric->view.clos();
  EXPECT_EQ(small.BaseOf(clos.up[0]), 0);
  EXPECT_EQ(small.BaseOf(clos.up[2]), kLoadUnit);
  const auto routes = bundles->Expand(std::vector<std::uint32_t>(20, 1));
  EXPECT_EQ(std::ranges::count(routes, PhaseProblem::kNoRoute), 2);
  EXPECT_EQ(std::ranges::count(routes, 2U), 20);
  EXPECT_EQ(std::ranges::count(routes, 3U), 20);
}

TEST(PhaseBundles, NeedParallelFlowsAndEqualSpines) {
  const auto fabric = Fabric::LeafSpine(4, 4);
  PhaseCase input;
  for (std::uint32_t to = 1; to < 4; ++to) input.Add(0, to);
  EXPECT_FALSE(PhaseBundles::Build(PhaseProblem(fabric->view, {}, input.flows, input.jobs)));
  for (std::uint32_t to = 1; to < 4; ++to) input.Add(0, to);
  EXPECT_TRUE(PhaseBundles::Build(PhaseProblem(fabric->view, {}, input.flows, input.jobs)));
  fabric->Fail("leaf1--spine2");
  EXPECT_FALSE(PhaseBundles::Build(PhaseProblem(fabric->view, {}, input.flows, input.jobs)));
  const Fabric tree(*fabric::BuildFatTree({.k = 4}));
  EXPECT_FALSE(PhaseBundles::Build(PhaseProblem(tree.view, {}, input.flows, input.jobs)));
}

// Every leaf has a link for each of its hosts' flows, but the greatest phases of the jobs are at
// different leaves: no numbering of whole colourings of the jobs reaches the bound.
TEST(PhaseBundles, LetSeveralTrainingJobsReachTheBound) {
  for (const std::uint64_t seed : SeedsToTry(1, 12)) {
    SCOPED_TRACE(seed);
    std::mt19937 random(static_cast<std::uint32_t>(seed));
    const auto fabric = Fabric::LeafSpine(32, 32);
    PhaseCase input = PlaceTrainingJobs(random, {});
    for (PhaseFlow& flow : input.flows) flow.path = static_cast<std::int32_t>(random() % 32);
    const PhaseAssignment result = input.Assign(fabric->view);
    EXPECT_EQ(result.max_load, (Load{1, 1}));
    EXPECT_EQ(WorstLoad(fabric->view, input, result.paths), result.max_load);
    EXPECT_EQ(result.excess, 0);
    // A new plan changes nothing.
    for (std::size_t i = 0; i < input.flows.size(); ++i) input.flows[i].path = result.paths[i];
    EXPECT_EQ(input.Assign(fabric->view).moved, 0U);
  }
}

}  // namespace
}  // namespace espalier::controller
