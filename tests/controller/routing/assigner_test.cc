#include "controller/routing/assigner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>

#include "controller/routing/load_bounds.h"
#include "tests/controller/routing/test_fabric.h"

namespace espalier::controller {
namespace {

using fabric::LinkState;

bool HasUsablePath(FabricView& view, const Commodity& flow) {
  const CandidatePaths& paths = view.Candidates(flow.source, flow.destination);
  for (std::size_t i = 0; i < paths.size(); ++i) {
    if (view.IsUsable(paths.Hops(i))) return true;
  }
  return false;
}

// Checks that each routable flow is on usable paths, that all others have none, and that the
// figures are those of the paths. Computed independently from the topology's own paths.
void ExpectValid(Fabric& fabric, const Commodities& flows, const Assignment& assignment) {
  ASSERT_EQ(assignment.first.size(), flows.size() + 1);
  std::vector<std::int64_t> loads(fabric.view.capacities().size());
  for (std::size_t i = 0; i < flows.size(); ++i) {
    const auto subflows = assignment.PathsOf(i);
    ASSERT_EQ(subflows.size(), flows[i].subflows);
    const bool takes_path =
        flows[i].source != flows[i].destination && HasUsablePath(fabric.view, flows[i]);
    for (const std::int32_t path : subflows) {
      ASSERT_EQ(path != kNoPath, takes_path) << "flow " << i;
      if (path == kNoPath) continue;
      const auto candidates = fabric.paths.Between(fabric.view.LeafNode(flows[i].source),
                                                   fabric.view.LeafNode(flows[i].destination));
      ASSERT_LT(static_cast<std::size_t>(path), candidates.size());
      ASSERT_TRUE(fabric::IsUsable(fabric.topology, candidates[static_cast<std::size_t>(path)]));
      for (const auto hop : candidates[static_cast<std::size_t>(path)].hops) {
        loads[hop.Index()] += kLoadUnit / flows[i].subflows;
      }
    }
  }
  EXPECT_EQ(assignment.max_load, ComputeMaxLoad(fabric.view, loads));
  EXPECT_EQ(ComputeLoads(fabric.view, flows, assignment), loads);
  EXPECT_LE(assignment.lower_bound, assignment.max_load);
}

// The least maximum load, by brute force.
Load BruteForce(Fabric& fabric, const Commodities& flows) {
  std::vector<std::int64_t> loads(fabric.view.capacities().size());
  Load best{std::numeric_limits<std::int32_t>::max(), 1};
  const auto place = [&](const auto& self, std::size_t i, std::uint32_t subflow) -> void {
    if (ComputeMaxLoad(fabric.view, loads) >= best) return;
    if (i == flows.size()) {
      best = ComputeMaxLoad(fabric.view, loads);
      return;
    }
    const bool is_last = subflow + 1 == flows[i].subflows;
    const CandidatePaths& paths = fabric.view.Candidates(flows[i].source, flows[i].destination);
    bool any = false;
    for (std::size_t path = 0; path < paths.size(); ++path) {
      if (flows[i].source == flows[i].destination) break;
      if (!fabric.view.IsUsable(paths.Hops(path))) continue;
      any = true;
      for (const auto link : paths.Hops(path)) loads[link] += kLoadUnit / flows[i].subflows;
      self(self, is_last ? i + 1 : i, is_last ? 0 : subflow + 1);
      for (const auto link : paths.Hops(path)) loads[link] -= kLoadUnit / flows[i].subflows;
    }
    if (!any) self(self, i + 1, 0);
  };
  place(place, 0, 0);
  return best;
}

TEST(AssignerOptimal, IsExactOnFullClos) {
  std::mt19937 random(1);
  for (const auto& [spines, leaves, per_leaf] :
       {std::tuple{4, 6, 4U}, {5, 6, 5U}, {7, 9, 20U}, {32, 16, 32U}, {1, 4, 3U}, {65, 5, 66U}}) {
    auto fabric = Fabric::LeafSpine(spines, leaves);
    Assigner assigner(fabric->view);
    for (int round = 0; round < 5; ++round) {
      const Commodities flows = RandomFlows(random, static_cast<std::uint32_t>(leaves), per_leaf);
      const Assignment result = assigner.Optimal(flows, {.step_budget = 0});
      SCOPED_TRACE(testing::Message() << spines << " spines, round " << round);
      ExpectValid(*fabric, flows, result);
      EXPECT_EQ(result.max_load, result.lower_bound);
      EXPECT_EQ(result.lower_bound, ComputeLowerBound(fabric->view, flows));
      EXPECT_LE(result.max_load, assigner.Greedy(flows).max_load);
    }
  }
}

TEST(AssignerOptimal, IsExactWithoutSomeSpines) {
  std::mt19937 random(2);
  auto fabric = Fabric::LeafSpine(8, 10);
  Assigner assigner(fabric->view);
  for (const int spine : {7, 3, 4}) {
    fabric->FailSpine(spine);
    const Commodities flows = RandomFlows(random, 10, 8);
    const Assignment result = assigner.Optimal(flows);
    ExpectValid(*fabric, flows, result);
    EXPECT_EQ(result.max_load, (Load{2, 1}));
    EXPECT_EQ(result.lower_bound, (Load{2, 1}));
  }
}

TEST(AssignerOptimal, DistinguishesLocalFromUnroutable) {
  auto fabric = Fabric::LeafSpine(2, 4);
  fabric->Fail("leaf3--spine0");
  fabric->Fail("leaf3--spine1");
  Assigner assigner(fabric->view);
  const Commodities flows = {{.source = 0, .destination = 0},
                             {.source = 0, .destination = 1},
                             {.source = 3, .destination = 1},
                             {.source = 2, .destination = 3, .subflows = 1}};
  for (const bool optimal : {true, false}) {
    const Assignment result = optimal ? assigner.Optimal(flows) : assigner.Greedy(flows);
    ExpectValid(*fabric, flows, result);
    EXPECT_EQ(result.max_load, (Load{1, 1}));
    EXPECT_EQ(result.PathsOf(0)[0], kNoPath);
    EXPECT_NE(result.PathsOf(1)[0], kNoPath);
    EXPECT_EQ(result.PathsOf(2)[0], kNoPath);
    EXPECT_EQ(result.PathsOf(3)[0], kNoPath);
  }
  EXPECT_EQ(assigner.Optimal({}).max_load, Load{});
}

TEST(AssignerOptimal, WorksWithoutAnySpine) {
  auto fabric = Fabric::LeafSpine(2, 3);
  fabric->FailSpine(0);
  fabric->FailSpine(1);
  Assigner assigner(fabric->view);
  const Commodities flows = {{.source = 0, .destination = 1}, {.source = 2, .destination = 1}};
  ExpectValid(*fabric, flows, assigner.Optimal(flows));
  ExpectValid(*fabric, flows, assigner.Greedy(flows));
}

TEST(AssignerOptimal, IsWithinOneFlowOfTheBoundWithATenthOfTheLinksFailed) {
  std::mt19937 random(3);
  for (int round = 0; round < 12; ++round) {
    auto fabric = Fabric::LeafSpine(16, 12);
    fabric->FailSome(random, 1 + static_cast<std::uint32_t>(round) % 10);
    Assigner assigner(fabric->view);
    const Commodities flows = RandomFlows(random, 12, 14 + static_cast<std::uint32_t>(round) % 4);
    const Assignment result = assigner.Optimal(flows, {.step_budget = 2'000'000});
    SCOPED_TRACE(round);
    ExpectValid(*fabric, flows, result);
    EXPECT_LE(result.max_load.Value(), result.lower_bound.Value() + 1);
    EXPECT_LE(result.max_load, assigner.Greedy(flows).max_load);
  }
}

TEST(AssignerOptimal, SplitsToWithinOneShareOfTheFraction) {
  std::mt19937 random(4);
  auto fabric = Fabric::LeafSpine(8, 6);
  fabric->FailSpine(2);
  Assigner assigner(fabric->view);
  for (int round = 0; round < 4; ++round) {
    Commodities flows = RandomFlows(random, 6, 8);
    const Load single = Load{assigner.Optimal(flows).max_load};
    std::vector<std::int64_t> degrees(12);
    for (const Commodity& flow : flows) {
      if (flow.source == flow.destination) continue;
      ++degrees[flow.source];
      ++degrees[6 + flow.destination];
    }
    const std::int64_t degree = *std::ranges::max_element(degrees);
    for (const std::uint32_t subflows : {2U, 3U, 4U, 8U, 16U}) {
      for (Commodity& flow : flows) flow.subflows = subflows;
      const Assignment result = assigner.Optimal(flows);
      ExpectValid(*fabric, flows, result);
      EXPECT_LE(result.max_load, single);
      const double fraction = static_cast<double>(degree) / 7;
      EXPECT_LE(result.max_load.Value(), fraction + 1.0 / subflows);
      if (degree == 8) {
        EXPECT_LT(result.max_load, single);
      }
    }
  }
}

TEST(AssignerOptimal, TakesFlowsWithDifferentNumbersOfSubflows) {
  std::mt19937 random(5);
  auto fabric = Fabric::LeafSpine(4, 5);
  Assigner assigner(fabric->view);
  for (int round = 0; round < 20; ++round) {
    Commodities flows = RandomFlows(random, 5, 4);
    for (Commodity& flow : flows) flow.subflows = 1 + static_cast<std::uint32_t>(random() % 4);
    const Assignment result = assigner.Optimal(flows);
    SCOPED_TRACE(round);
    ExpectValid(*fabric, flows, result);
    EXPECT_LE(result.max_load, assigner.Greedy(flows).max_load);
    EXPECT_LE(result.max_load.Value(), result.lower_bound.Value() + 1);
  }
}

// Leaf-spine fabrics with links of unequal rates and with failed links, small enough for brute
// force.
TEST(AssignerOptimal, IsCloseToBruteForceOnSmallIrregularFabrics) {
  std::mt19937 random(6);
  int exact = 0;
  int all = 0;
  for (int round = 0; round < 120; ++round) {
    auto spec =
        *fabric::BuildLeafSpine({.spines = 2 + round % 2, .leaves = 3, .hosts_per_leaf = 1});
    for (fabric::Link& link : spec.links) {
      if (round % 3 == 0 && random() % 3 == 0) link.rate = BitsPerSecond{40'000'000'000};
      if (link.id.find("spine") != std::string::npos && random() % 8 == 0) {
        link.state = LinkState::kDown;
      }
    }
    Fabric fabric(std::move(spec));
    Commodities flows = RandomFlows(random, 3, 2);
    if (round % 4 == 1) flows[0].subflows = 2;
    Assigner assigner(fabric.view);
    const Assignment result = assigner.Optimal(flows);
    const Load best = BruteForce(fabric, flows);
    SCOPED_TRACE(round);
    ExpectValid(fabric, flows, result);
    EXPECT_LE(result.lower_bound, best);
    EXPECT_LE(result.max_load, assigner.Greedy(flows).max_load);
    EXPECT_LE(result.max_load.Value(), best.Value() + 2.5);
    ++all;
    exact += result.max_load == best ? 1 : 0;
  }
  EXPECT_GE(exact * 100, all * 95) << exact << " of " << all;
}

TEST(AssignerOptimal, ImprovesOnGreedyInAThreeTierFabric) {
  std::mt19937 random(7);
  Fabric fabric(*fabric::BuildFatTree({.k = 4}));
  ASSERT_FALSE(fabric.view.clos().has_value());
  Assigner assigner(fabric.view);
  std::int64_t greedy_sum = 0;
  std::int64_t optimal_sum = 0;
  for (int round = 0; round < 20; ++round) {
    const Commodities flows = RandomFlows(random, fabric.view.leaf_count(), 2);
    const Load greedy = Load{assigner.Greedy(flows).max_load};
    const Assignment result = assigner.Optimal(flows);
    SCOPED_TRACE(round);
    ExpectValid(fabric, flows, result);
    EXPECT_LE(result.max_load, greedy);
    EXPECT_LE(result.max_load.Value(), result.lower_bound.Value() + 1);
    greedy_sum += greedy.numerator;
    optimal_sum += result.max_load.numerator;
  }
  EXPECT_LT(optimal_sum, greedy_sum);
}

TEST(AssignerOptimal, IsDeterministic) {
  std::mt19937 random(8);
  auto fabric = Fabric::LeafSpine(6, 6);
  fabric->Fail("leaf0--spine3");
  const Commodities flows = RandomFlows(random, 6, 7, 1, 3);
  Assigner used(fabric->view);
  used.Optimal(RandomFlows(random, 6, 9, 2, 2));
  Assigner fresh(fabric->view);
  EXPECT_EQ(Assignment(used.Optimal(flows)).paths, fresh.Optimal(flows).paths);
}

// The best score among all assignments of least maximum load, by brute force.
Score BestScore(Fabric& fabric, const Commodities& flows, const AssignOptions& options) {
  RatePredictor predictor(fabric.view);
  const Load least = BruteForce(fabric, flows);
  Assignment assignment;
  for (std::uint32_t i = 0; i <= flows.size(); ++i) assignment.first.push_back(i);
  assignment.paths.assign(flows.size(), kNoPath);
  std::vector<std::int64_t> loads(fabric.view.capacities().size());
  Score best;
  bool any = false;
  const auto place = [&](const auto& self, std::size_t i) -> void {
    if (ComputeMaxLoad(fabric.view, loads) > least) return;
    if (i == flows.size()) {
      const auto rates = predictor.Predict(flows, assignment);
      Score score = ComputeScore(flows, rates, options.job_weights);
      if (!any || IsBetter(score, best)) best = std::move(score);
      any = true;
      return;
    }
    if (flows[i].source == flows[i].destination) return self(self, i + 1);
    const CandidatePaths& paths = fabric.view.Candidates(flows[i].source, flows[i].destination);
    for (std::size_t path = 0; path < paths.size(); ++path) {
      assignment.paths[i] = static_cast<std::int32_t>(path);
      for (const auto link : paths.Hops(path)) loads[link] += kLoadUnit;
      self(self, i + 1);
      for (const auto link : paths.Hops(path)) loads[link] -= kLoadUnit;
    }
  };
  place(place, 0);
  return best;
}

// Without the sum of rates, which only breaks ties.
Score WithoutTotal(Score score) {
  score.total_rate = 0;
  return score;
}

// In how many of `rounds` small cases jobs are as fast as by brute force.
int CountAsGoodAsBruteForce(int rounds) {
  std::mt19937 random(9);
  int equal = 0;
  for (int round = 0; round < rounds; ++round) {
    auto fabric = Fabric::LeafSpine(2 + round % 2, 3);
    Commodities flows = RandomFlows(random, 3, 3, 1, 3);
    const std::vector<std::uint32_t> weights = {1, 1 + static_cast<std::uint32_t>(random() % 2),
                                                1 + static_cast<std::uint32_t>(random() % 3)};
    const AssignOptions options{.job_weights = weights};
    Assigner assigner(fabric->view);
    const Assignment result = assigner.Optimal(flows, options);
    SCOPED_TRACE(round);
    ExpectValid(*fabric, flows, result);
    RatePredictor predictor(fabric->view);
    const auto score_of = [&](const Assignment& assignment) {
      return ComputeScore(flows, predictor.Predict(flows, assignment), weights);
    };
    const Score score = score_of(result);
    const Score best = BestScore(*fabric, flows, options);
    EXPECT_FALSE(IsBetter(score, best));
    // The result is not worse than the assignments among which it chose.
    if (assigner.Greedy(flows).max_load == result.max_load) {
      EXPECT_FALSE(IsBetter(WithoutTotal(score_of(assigner.Greedy(flows))), WithoutTotal(score)));
    }
    equal += IsBetter(WithoutTotal(best), WithoutTotal(score)) ? 0 : 1;
  }
  return equal;
}

TEST(AssignerOptimal, MakesJobsAsFastAsBruteForceDoes) {
  EXPECT_GE(CountAsGoodAsBruteForce(60), 54);
}

TEST(AssignerGreedy, KeepsItsOrderAndTakesTheLowestSpine) {
  auto fabric = Fabric::LeafSpine(4, 3);
  Assigner assigner(fabric->view);
  const Commodities flows = {{.source = 0, .destination = 1},
                             {.source = 0, .destination = 2},
                             {.source = 1, .destination = 2},
                             {.source = 0, .destination = 1}};
  const Assignment result = assigner.Greedy(flows);
  EXPECT_EQ(result.paths, (std::vector<std::int32_t>{0, 1, 0, 2}));
}

// Theorem 2 of Routing for Large ML Models (section 4).
TEST(AssignerGreedy, IsWithinTwiceTheOptimumOnAFullClos) {
  std::mt19937 random(20'241);
  for (int trial = 0; trial < 200; ++trial) {
    const int spines = std::uniform_int_distribution(1, 3)(random);
    const std::uint32_t leaves = std::uniform_int_distribution(2U, 4U)(random);
    auto fabric = Fabric::LeafSpine(spines, static_cast<int>(leaves));
    Commodities flows;
    for (int i = std::uniform_int_distribution(1, 7)(random); i > 0; --i) {
      const std::uint32_t from = std::uniform_int_distribution(0U, leaves - 1)(random);
      const std::uint32_t hop = std::uniform_int_distribution(1U, leaves - 1)(random);
      flows.push_back({.source = from, .destination = (from + hop) % leaves});
    }
    Assigner assigner(fabric->view);
    const Load best = BruteForce(*fabric, flows);
    EXPECT_LE(assigner.Greedy(flows).max_load, (Load{2 * best.numerator, best.denominator}))
        << "trial " << trial;
  }
}

TEST(AssignerGreedy, CountsLoadAgainstCapacity) {
  auto spec = *fabric::BuildLeafSpine({.spines = 2, .leaves = 2, .hosts_per_leaf = 1});
  for (fabric::Link& link : spec.links) {
    if (link.id == "leaf0--spine0") link.rate = BitsPerSecond{300'000'000'000};
    if (link.id == "leaf1--spine0") link.rate = BitsPerSecond{300'000'000'000};
  }
  Fabric fabric(std::move(spec));
  Assigner assigner(fabric.view);
  const Commodities flows(4, {.source = 0, .destination = 1});
  const Assignment result = assigner.Optimal(flows);
  ExpectValid(fabric, flows, result);
  EXPECT_EQ(std::ranges::count(result.paths, 0), 3);  // three times the rate
  EXPECT_EQ(result.max_load, (Load{3, 1}));           // relative to a link of 300 Gbit/s
}

}  // namespace
}  // namespace espalier::controller
