#include "controller/offline/comparators/comparators.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <random>
#include <tuple>
#include <vector>

#include "controller/offline/comparators/ilp.h"
#include "tests/controller/offline/comparators/small_fabric.h"
#include "tests/controller/routing/load_oracle.h"

namespace espalier::offline {
namespace {

using controller::Assignment;
using controller::BruteForce;
using controller::Commodities;
using controller::Fabric;
using controller::kMaxSubflows;
using controller::Load;
using controller::PaperOrder;
using controller::RandomFlows;

TEST(ComparatorsDeathTest, RefuseTooManySubflowsAsTheAssignersDo) {
  Fabric fabric(*fabric::BuildLeafSpine({.spines = 2, .leaves = 2, .hosts_per_leaf = 1}));
  for (const std::uint32_t subflows : {0U, kMaxSubflows + 1}) {
    const Commodities flows = {{.source = 0, .destination = 1, .subflows = subflows}};
    const std::vector<std::uint64_t> keys = {1};
    EXPECT_DEATH(AssignByHash(fabric.view, flows, keys, 1), "subflows=");
    EXPECT_DEATH(AssignByAnnealing(fabric.view, flows, {}), "subflows=");
    EXPECT_DEATH(IlpProgram(fabric.view, flows), "subflows=");
  }
}

// The states have one core for every destination, so annealing may miss the optimum; if every NIC
// receives one flow, it must find it.
TEST(Annealing, FindsTheOptimumWhereEveryDestinationHasOneFlow) {
  std::mt19937 random(2);
  for (int round = 0; round < 24; ++round) {
    auto fabric = SmallFabric(random, round);
    const Commodities flows = RandomFlows(random, 3, 2);
    const Assignment assignment =
        AssignByAnnealing(fabric->view, flows, {.steps = 4000, .seed = 1});
    SCOPED_TRACE(round);
    ExpectValid(*fabric, flows, assignment);
    const Load best = BruteForce(*fabric, flows);
    EXPECT_GE(assignment.max_load, best);
    // The energy is the load above capacity, not the maximum load: equal rates only.
    if (round % 3 != 0 && best <= Load{1, 1}) {
      EXPECT_EQ(assignment.max_load, best);
    }
  }
}

TEST(Annealing, GivesADestinationOneCore) {
  std::mt19937 random(3);
  auto fabric = Fabric::LeafSpine(4, 4);
  Commodities flows;
  for (std::uint32_t i = 0; i < 12; ++i) {
    flows.push_back({.source = i % 3, .destination = 3, .destination_link = 1000 + i / 3});
  }
  const Assignment assignment = AssignByAnnealing(fabric->view, flows, {.steps = 500, .seed = 3});
  for (std::size_t i = 0; i < flows.size(); ++i) {
    EXPECT_EQ(assignment.paths[i], assignment.paths[i - i % 3]);
  }
}

TEST(Ecmp, GivesEveryUsablePathItsShare) {
  auto fabric = Fabric::LeafSpine(8, 2);
  fabric->Fail("leaf0--spine2");
  constexpr std::size_t kFlows = 70'000;
  const Commodities flows(kFlows, {.source = 0, .destination = 1});
  std::vector<std::uint64_t> keys(kFlows);
  std::iota(keys.begin(), keys.end(), std::uint64_t{0});
  for (const std::uint64_t seed : {0U, 1U, 2U}) {
    const Assignment assignment = AssignByHash(fabric->view, flows, keys, seed);
    std::vector<double> counts(8);
    for (const std::int32_t path : assignment.paths) ++counts[static_cast<std::size_t>(path)];
    EXPECT_EQ(counts[2], 0);
    double chi_square = 0;
    for (std::size_t path = 0; path < 8; ++path) {
      if (path != 2) chi_square += std::pow(counts[path] - kFlows / 7.0, 2) / (kFlows / 7.0);
    }
    EXPECT_LT(chi_square, 30);  // six degrees of freedom: by chance once in 25,000
  }
}

TEST(Ecmp, KeepsAFlowsPathWhateverElseIsLive) {
  std::mt19937 random(4);
  auto fabric = Fabric::LeafSpine(8, 6);
  Commodities flows = RandomFlows(random, 6, 6, 3);
  std::vector<std::uint64_t> keys(flows.size());
  std::iota(keys.begin(), keys.end(), std::uint64_t{100});
  const Assignment all = AssignByHash(fabric->view, flows, keys, 5);
  ExpectValid(*fabric, flows, all);
  const Commodities last = {flows.back()};
  const Assignment alone = AssignByHash(fabric->view, last, std::span(keys).last(1), 5);
  EXPECT_TRUE(std::ranges::equal(alone.paths, all.PathsOf(flows.size() - 1)));
  EXPECT_NE(AssignByHash(fabric->view, flows, keys, 6).paths, all.paths);
}

TEST(PaperOrder, TakesBigGroupsFirstThenByLeaves) {
  const Commodities flows = {{.source = 2, .destination = 0}, {.source = 0, .destination = 1},
                             {.source = 1, .destination = 0}, {.source = 2, .destination = 0},
                             {.source = 0, .destination = 1}, {.source = 2, .destination = 0}};
  EXPECT_EQ(PaperOrder(flows), (std::vector<std::uint32_t>{0, 3, 5, 1, 4, 2}));
  EXPECT_TRUE(PaperOrder({}).empty());
}

}  // namespace
}  // namespace espalier::offline
