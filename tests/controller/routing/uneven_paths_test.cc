#include "controller/routing/uneven_paths.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "controller/routing/assigner.h"
#include "tests/controller/routing/test_fabric.h"
#include "tests/seeds.h"

namespace espalier::controller {
namespace {

// What an assignment puts on the links, by the topology's own paths.
struct Recount {
  std::vector<std::int64_t> units;            // by directed link
  std::map<std::uint32_t, std::size_t> sent;  // by leaf: the paths that its flows take, in all
  std::map<std::uint32_t, std::size_t> received;
  std::size_t most_paths = 0;  // of one flow
};

Recount CountAll(Fabric& fabric, const Commodities& flows, const Assignment& assignment) {
  Recount count{.units = std::vector<std::int64_t>(2 * fabric.topology.links().size())};
  for (std::size_t i = 0; i < flows.size(); ++i) {
    if (flows[i].source == flows[i].destination) continue;
    const auto all = fabric.paths.Between(fabric.view.LeafNode(flows[i].source),
                                          fabric.view.LeafNode(flows[i].destination));
    std::set<std::int32_t> taken;
    std::int64_t sum = 0;
    for (std::size_t s = assignment.first[i]; s < assignment.first[i + 1]; ++s) {
      const fabric::Path& path = all[static_cast<std::size_t>(assignment.paths[s])];
      EXPECT_TRUE(fabric::IsUsable(fabric.topology, path));
      EXPECT_GT(assignment.shares[s], 0);
      sum += assignment.shares[s];
      taken.insert(assignment.paths[s]);
      for (const auto hop : path.hops) count.units[hop.Index()] += assignment.shares[s];
    }
    EXPECT_EQ(sum, kLoadUnit) << "of flow " << i;
    count.sent[flows[i].source] += taken.size();
    count.received[flows[i].destination] += taken.size();
    count.most_paths = std::max(count.most_paths, taken.size());
  }
  return count;
}

// Flows in circles: each leaf sends `degree` and receives as many, none of them to itself.
Commodities RandomCircles(std::mt19937& random, std::uint32_t leaves, std::uint32_t degree,
                          std::uint32_t subflows) {
  Commodities flows;
  for (std::uint32_t circle = 0; circle < degree; ++circle) {
    const auto step = static_cast<std::uint32_t>(1 + random() % (leaves - 1));
    for (std::uint32_t leaf = 0; leaf < leaves; ++leaf) {
      flows.push_back(
          {.source = leaf, .destination = (leaf + step) % leaves, .subflows = subflows});
    }
  }
  return flows;
}

using Rule = UnevenPaths::Rule;

bool Divide(Fabric& fabric, const Commodities& flows, Rule rule, Assignment& assignment,
            const std::vector<std::uint8_t>& is_rigid = {}) {
  assignment.Clear(flows);
  return UnevenPaths(fabric.view).Assign(flows, rule, is_rigid, assignment);
}

std::int64_t RoundedUp(std::int64_t units, std::int64_t by) { return (units + by - 1) / by; }

TEST(UnevenPaths, MeetTheFractionWithTheFewestParts) {
  int divided = 0;
  for (const std::uint64_t seed : SeedsToTry(1, 200)) {
    SCOPED_TRACE(seed);
    std::mt19937 random(static_cast<std::uint32_t>(seed));
    const int spines = 2 + static_cast<int>(random() % 9);
    const int dead = static_cast<int>(random() % 3);
    const auto leaves = static_cast<std::uint32_t>(2 + random() % 6);
    auto fabric = Fabric::LeafSpine(spines + dead, static_cast<int>(leaves));
    for (int spine = 0; spine < dead; ++spine) fabric->FailSpine(2 * spine % (spines + dead));
    std::int64_t live = 0;
    for (int spine = 0; spine < spines + dead; ++spine) {
      live +=
          fabric->view.capacities()[fabric->view.clos()->up[static_cast<std::size_t>(spine)]] > 0
              ? 1
              : 0;
    }
    const auto degree = static_cast<std::uint32_t>(1 + random() % 24);
    const Commodities flows = RandomCircles(random, leaves, degree, 2);
    Assignment assignment;
    const bool is_equal_enough = degree < live || 2 * degree % live == 0;
    ASSERT_EQ(Divide(*fabric, flows, Rule::kExact, assignment), !is_equal_enough);
    if (is_equal_enough) continue;
    ++divided;
    const Recount count = CountAll(*fabric, flows, assignment);
    const std::int64_t least = RoundedUp(degree * kLoadUnit, live);
    EXPECT_EQ(std::ranges::max(count.units), least);
    EXPECT_EQ(ComputeMaxLoad(fabric->view, count.units), assignment.max_load);
    EXPECT_LE(count.most_paths, 2U);
    const std::size_t fewest =
        degree + static_cast<std::size_t>(live - std::gcd(std::int64_t{degree}, live));
    for (const auto& [leaf, parts] : count.sent) EXPECT_EQ(parts, fewest);
    for (const auto& [leaf, parts] : count.received) EXPECT_EQ(parts, fewest);
  }
  EXPECT_GT(divided, 50);
}

TEST(UnevenPaths, SplitFewFlowsForALoadCloseToTheLeast) {
  const std::vector<std::pair<Rule, std::uint32_t>> rules = {
      {Rule::kHalves, 2}, {Rule::kQuarters, 4}, {Rule::kEighths, 8}};
  for (const auto& [rule, parts] : rules) {
    for (const std::uint32_t dead : {1U, 3U, 4U, 8U, 15U}) {
      SCOPED_TRACE("1 / " + std::to_string(parts) + ", dead spines: " + std::to_string(dead));
      constexpr std::uint32_t kSpines = 32;
      auto fabric = Fabric::LeafSpine(kSpines, 6);
      for (std::uint32_t spine = 0; spine < dead; ++spine) {
        fabric->FailSpine(static_cast<int>(spine));
      }
      const std::uint32_t live = kSpines - dead;
      std::mt19937 random(dead);
      const Commodities flows = RandomCircles(random, 6, kSpines, 2);
      Assignment assignment;
      const bool fits = dead * parts <= live;
      ASSERT_TRUE(Divide(*fabric, flows, rule, assignment));
      const Recount count = CountAll(*fabric, flows, assignment);
      const Load expected =
          fits ? MakeLoad(fabric->view, kLoadUnit + kLoadUnit / parts, fabric->view.unit_bps())
               : MakeLoad(fabric->view, RoundedUp(kSpines * kLoadUnit, live),
                          fabric->view.unit_bps());
      EXPECT_EQ(ComputeMaxLoad(fabric->view, count.units), expected);
      EXPECT_EQ(assignment.max_load, expected);
      const std::size_t fewest =
          fits ? kSpines + dead * (parts - 1) : kSpines + live - std::gcd(kSpines, live);
      for (const auto& [leaf, paths] : count.sent) EXPECT_EQ(paths, fewest);
      for (const auto& [leaf, paths] : count.received) EXPECT_EQ(paths, fewest);
    }
  }
}

// A plane that is dead in all pods leaves three for the four flows of each leaf.
TEST(UnevenPaths, DivideOverPlanesAndCoresOfThreeTiers) {
  for (const std::uint64_t seed : SeedsToTry(1, 20)) {
    SCOPED_TRACE(seed);
    Fabric fabric(*fabric::BuildFatTree({.k = 8}));
    std::mt19937 random(static_cast<std::uint32_t>(seed));
    const auto plane = static_cast<std::uint32_t>(random() % 4);
    const auto& clos = *fabric.view.folded_clos();
    for (const auto& block : clos.blocks) {
      if (block.tier != 0) continue;
      for (const auto* links : {&clos.up, &clos.down}) {
        const auto& parent = clos.blocks[block.parent];
        const std::uint32_t link =
            (*links)[parent.first_link + std::size_t{plane} * parent.children + block.place];
        fabric.topology.SetLinkState(fabric::DirectedLink::FromIndex(link).link,
                                     fabric::LinkState::kDown);
      }
    }
    fabric.view.Refresh();
    for (const std::uint32_t subflows : {2U, 4U, 8U}) {
      const Commodities flows = RandomCircles(random, 32, 4, subflows);
      Assignment assignment;
      ASSERT_TRUE(Divide(fabric, flows, Rule::kExact, assignment));
      const Recount count = CountAll(fabric, flows, assignment);
      EXPECT_EQ(std::ranges::max(count.units), 4 * kLoadUnit / 3);
      EXPECT_LE(count.most_paths, subflows);
    }
  }
}

// Flows that cannot be divided take one path each, beside others that make room for them.
TEST(UnevenPaths, LeaveRigidFlowsWhole) {
  int exact = 0;
  int few = 0;
  int close = 0;
  int some = 0;
  for (const std::uint64_t seed : SeedsToTry(1, 60)) {
    SCOPED_TRACE(seed);
    std::mt19937 random(static_cast<std::uint32_t>(seed));
    auto fabric = Fabric::LeafSpine(16, 12);
    for (int spine = 0; spine < 4; ++spine) fabric->FailSpine(spine);
    Commodities flows = RandomCircles(random, 12, 16, 2);
    std::vector<std::uint8_t> is_rigid(flows.size());
    const auto percent = static_cast<std::uint32_t>(random() % 60);
    for (std::size_t i = 0; i < flows.size(); ++i) {
      is_rigid[i] = random() % 100 < percent ? 1 : 0;
      if (is_rigid[i] != 0) flows[i].subflows = 1 + static_cast<std::uint32_t>(random() % 3);
    }
    Assignment assignment;
    ASSERT_TRUE(Divide(*fabric, flows, Rule::kExact, assignment, is_rigid));
    const Recount count = CountAll(*fabric, flows, assignment);
    for (std::size_t i = 0; i < flows.size(); ++i) {
      if (is_rigid[i] == 0) continue;
      const auto paths = assignment.PathsOf(i);
      EXPECT_TRUE(std::ranges::all_of(paths, [&](auto path) { return path == paths.front(); }));
      for (const std::int64_t share : assignment.SharesOf(i)) {
        EXPECT_EQ(share, kLoadUnit / flows[i].subflows);
      }
    }
    EXPECT_EQ(MakeLoad(fabric->view, std::ranges::max(count.units), fabric->view.unit_bps()),
              assignment.max_load);
    EXPECT_LE(assignment.max_load, (Load{2, 1}));
    // Half of the colours lie on one spine, and three quarters where the load is 3/2. Exchanges
    // find room in them for a part of that.
    if (percent <= 10) {
      ++few;
      exact += assignment.max_load == Load{4, 3} ? 1 : 0;
    }
    if (percent <= 20) {
      ++some;
      close += assignment.max_load <= Load{3, 2} ? 1 : 0;
    }
  }
  EXPECT_GT(10 * exact, 8 * few) << few;
  EXPECT_GT(10 * close, 8 * some) << some;
}

TEST(UnevenPaths, ApplyOnlyIfTheyCanAndGain) {
  auto fabric = Fabric::LeafSpine(4, 6);
  fabric->FailSpine(0);
  std::mt19937 random(1);
  Assignment assignment;
  const Commodities whole = RandomCircles(random, 6, 4, 1);
  EXPECT_FALSE(Divide(*fabric, whole, Rule::kExact, assignment)) << "they have one subflow";
  const Commodities flows = RandomCircles(random, 6, 4, 2);
  assignment.Clear(flows);
  EXPECT_TRUE(assignment.shares.empty());
  EXPECT_EQ(assignment.paths, std::vector<std::int32_t>(2 * flows.size(), kNoPath));
  EXPECT_TRUE(Divide(*fabric, flows, Rule::kExact, assignment));
  EXPECT_FALSE(Divide(*fabric, RandomCircles(random, 6, 3, 2), Rule::kExact, assignment))
      << "whole flows fill the spines";
  fabric->Fail("leaf2--spine1");
  EXPECT_FALSE(Divide(*fabric, flows, Rule::kExact, assignment)) << "leaves differ";
}

TEST(UnevenPaths, AreTakenByTheOptimumWhereTheyAreBetter) {
  auto fabric = Fabric::LeafSpine(32, 64);
  for (int spine = 0; spine < 8; ++spine) fabric->FailSpine(4 * spine);
  std::mt19937 random(3);
  Assigner assigner(fabric->view);
  const Commodities eight = RandomCircles(random, 64, 32, 8);
  EXPECT_EQ(assigner.Optimal(eight).max_load, (Load{11, 8}));
  const Assignment& exact = assigner.Optimal(eight, {.shares = Shares::kExact});
  EXPECT_EQ(exact.max_load, (Load{4, 3}));
  EXPECT_EQ(exact.lower_bound, (Load{4, 3}));
  EXPECT_EQ(exact.proof, Proof::kDivisible);
  EXPECT_EQ(std::ranges::max(CountAll(*fabric, eight, exact).units), 4 * kLoadUnit / 3);
  // Every flow is as fast as its links allow.
  RatePredictor rates(fabric->view);
  for (const double rate : rates.Predict(eight, exact)) {
    EXPECT_NEAR(rate, 0.75 * static_cast<double>(fabric->view.unit_bps()), 1.0);
  }
  // Where a leaf has lost a link of its own, the bound of divisible flows shows the gap.
  fabric->Fail("leaf2--spine1");
  const Assignment& damaged = assigner.Optimal(eight, {.shares = Shares::kExact});
  EXPECT_TRUE(damaged.shares.empty());
  EXPECT_LT(damaged.lower_bound, damaged.max_load);
  EXPECT_EQ(damaged.proof, Proof::kNone);
  // All links up: whole flows fill them.
  for (int spine = 0; spine < 32; ++spine) fabric->SetSpineState(spine, fabric::LinkState::kUp);
  const Assignment& healthy = assigner.Optimal(eight, {.shares = Shares::kExact});
  EXPECT_TRUE(healthy.shares.empty());
  EXPECT_EQ(healthy.max_load, (Load{1, 1}));
  EXPECT_EQ(healthy.proof, Proof::kTwoTiers);
}

}  // namespace
}  // namespace espalier::controller
