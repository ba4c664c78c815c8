#include "common/graph/max_min.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace espalier::graph {
namespace {

struct Case {
  std::vector<double> capacities;
  std::vector<std::vector<std::uint32_t>> paths;
  std::vector<std::uint32_t> weights = {};

  std::vector<double> Solve(MaxMin& solver) const {
    std::vector<std::uint32_t> begin{0};
    std::vector<std::uint32_t> links;
    for (const auto& path : paths) {
      links.insert(links.end(), path.begin(), path.end());
      begin.push_back(static_cast<std::uint32_t>(links.size()));
    }
    const auto rates = solver.Solve(capacities, begin, links, -1, weights);
    return {rates.begin(), rates.end()};
  }
  std::vector<double> Solve() const {
    MaxMin solver;
    return Solve(solver);
  }
  double Weight(std::size_t flow) const { return weights.empty() ? 1 : weights[flow]; }
};

// Checks the two conditions that define max-min fairness: no link is overloaded, and every flow has
// a full link on which no flow is faster.
void ExpectMaxMinFair(const Case& c, const std::vector<double>& rates) {
  constexpr double kTolerance = 1e-12;
  std::vector<double> used(c.capacities.size());
  std::vector<double> fastest(c.capacities.size());
  for (std::size_t flow = 0; flow < c.paths.size(); ++flow) {
    for (const std::uint32_t link : c.paths[flow]) {
      used[link] += rates[flow];
      fastest[link] = std::max(fastest[link], rates[flow] / c.Weight(flow));
    }
  }
  for (std::size_t link = 0; link < used.size(); ++link) {
    EXPECT_LE(used[link], c.capacities[link] * (1 + kTolerance)) << "link " << link;
  }
  for (std::size_t flow = 0; flow < c.paths.size(); ++flow) {
    if (c.paths[flow].empty()) continue;
    const bool has_bottleneck = std::ranges::any_of(c.paths[flow], [&](std::uint32_t link) {
      const double slack = c.capacities[link] * kTolerance;
      return used[link] >= c.capacities[link] - slack &&
             fastest[link] <= rates[flow] / c.Weight(flow) + slack;
    });
    EXPECT_TRUE(has_bottleneck) << "flow " << flow << " rate " << rates[flow];
  }
}

TEST(MaxMin, KnownCases) {
  EXPECT_EQ((Case{{10}, {{0}, {0}}}.Solve()), (std::vector<double>{5, 5}));
  // The long flow of a line shares with each short one.
  EXPECT_EQ((Case{{10, 10}, {{0, 1}, {0}, {1}}}.Solve()), (std::vector<double>{5, 5, 5}));
  // A flow takes the capacity that another one leaves because of its bottleneck elsewhere.
  EXPECT_EQ((Case{{10, 2}, {{0, 1}, {0}}}.Solve()), (std::vector<double>{2, 8}));
  EXPECT_EQ((Case{{10, 0}, {{0, 1}, {0}}}.Solve()), (std::vector<double>{0, 10}));
  EXPECT_EQ((Case{{10}, {{}, {0}}}.Solve()), (std::vector<double>{-1, 10}));
  EXPECT_TRUE((Case{{10}, {}}.Solve()).empty());
}

TEST(MaxMin, WeightsShareInProportion) {
  EXPECT_EQ((Case{{12}, {{0}, {0}}, {1, 3}}.Solve()), (std::vector<double>{3, 9}));
  // The heavy flow has its bottleneck elsewhere; the light one takes the rest.
  EXPECT_EQ((Case{{12, 4}, {{0}, {0, 1}}, {1, 3}}.Solve()), (std::vector<double>{8, 4}));
}

// The oracle: raises all rates together and recomputes everything in each round.
std::vector<double> SlowMaxMin(const Case& c) {
  std::vector<double> rates(c.paths.size(), 0);
  std::vector<bool> fixed(c.paths.size(), false);
  for (std::size_t flow = 0; flow < c.paths.size(); ++flow) {
    if (c.paths[flow].empty()) {
      rates[flow] = -1;
      fixed[flow] = true;
    }
  }
  const auto crosses = [&](std::size_t flow, std::size_t link) {
    return std::ranges::find(c.paths[flow], link) != c.paths[flow].end();
  };
  while (std::ranges::find(fixed, false) != fixed.end()) {
    double step = 1e300;
    std::vector<double> room(c.capacities.size());
    std::vector<double> open(c.capacities.size(), 0);
    for (std::size_t link = 0; link < c.capacities.size(); ++link) {
      double used = 0;
      for (std::size_t flow = 0; flow < rates.size(); ++flow) {
        if (!crosses(flow, link)) continue;
        used += rates[flow];
        open[link] += fixed[flow] ? 0 : c.Weight(flow);
      }
      room[link] = c.capacities[link] - used;
      if (open[link] > 0) step = std::min(step, room[link] / open[link]);
    }
    for (std::size_t flow = 0; flow < rates.size(); ++flow) {
      if (!fixed[flow]) rates[flow] += step * c.Weight(flow);
    }
    for (std::size_t link = 0; link < c.capacities.size(); ++link) {
      if (open[link] == 0 || room[link] / open[link] > step * (1 + 1e-9)) continue;
      for (std::size_t flow = 0; flow < rates.size(); ++flow) {
        if (crosses(flow, link)) fixed[flow] = true;
      }
    }
  }
  return rates;
}

TEST(MaxMin, AgreesWithASlowSolver) {
  std::mt19937 random(20'260'101);
  const auto below = [&](std::uint32_t n) { return static_cast<std::uint32_t>(random() % n); };
  MaxMin solver;  // one workspace for all, as no call may affect the next
  for (int round = 0; round < 600; ++round) {
    Case c;
    const std::uint32_t links = 1 + below(8);
    for (std::uint32_t i = 0; i < links; ++i) c.capacities.push_back(1 + below(100));
    c.paths.resize(below(12));
    for (auto& path : c.paths) {
      for (std::uint32_t link = 0; link < links; ++link) {
        if (below(5) < 2) path.push_back(link);
      }
      if (round % 2 == 1) c.weights.push_back(1 + below(4));
    }
    SCOPED_TRACE(round);
    const std::vector<double> fast = c.Solve(solver);
    const std::vector<double> slow = SlowMaxMin(c);
    for (std::size_t i = 0; i < fast.size(); ++i) EXPECT_NEAR(fast[i], slow[i], 1e-6) << i;
    ExpectMaxMinFair(c, fast);
  }
}

TEST(MaxMin, KeepsItsToleranceOnLargeInputs) {
  std::mt19937 random(7);
  MaxMin solver;
  for (int round = 0; round < 4; ++round) {
    Case c;
    for (int i = 0; i < 600; ++i)
      c.capacities.push_back(1e11 / static_cast<double>(1 + random() % 7));
    c.paths.resize(4'096);
    for (auto& path : c.paths) {
      while (path.size() < 4) {
        // Later rounds use few links, so that rates differ much and there are many layers.
        const auto link = static_cast<std::uint32_t>(random() % (600 >> (2 * round)));
        if (std::ranges::find(path, link) == path.end()) path.push_back(link);
      }
    }
    SCOPED_TRACE(round);
    ExpectMaxMinFair(c, c.Solve(solver));
  }
}

}  // namespace
}  // namespace espalier::graph
