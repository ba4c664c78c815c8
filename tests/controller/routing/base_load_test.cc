// Base loads and fixed paths: load that an assignment goes around.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "controller/routing/assigner.h"
#include "controller/routing/bounds/load_bounds.h"
#include "controller/routing/online/online_assigner.h"
#include "tests/controller/routing/test_fabric.h"
#include "tests/seeds.h"

namespace espalier::controller {
namespace {

constexpr OnlineAssigner::Options kAnyMoves{.max_moves = 1'000'000, .step_budget = 1'000'000'000};

using Units = std::vector<std::int64_t>;

std::uint32_t LinkOf(const Fabric& fabric, const std::string& name, bool forward) {
  return static_cast<std::uint32_t>(
      fabric::DirectedLink{*fabric.topology.FindLink(name), forward}.Index());
}

// A leaf's links are named leaf--spine, so that the leaf sends forward.
std::uint32_t Uplink(const Fabric& fabric, int leaf, int spine) {
  return LinkOf(fabric, "leaf" + std::to_string(leaf) + "--spine" + std::to_string(spine), true);
}

// Loads in sixteenths on some links between switches.
Units RandomBase(std::mt19937& random, const Fabric& fabric, std::uint32_t percent) {
  Units base(fabric.view.capacities().size());
  for (std::uint32_t link = 0; link < base.size(); ++link) {
    if (!fabric.view.IsSwitchLink(link) || random() % 100 >= percent) continue;
    base[link] = kLoadUnit / 16 * (1 + random() % 16);
  }
  return base;
}

// The least maximum over the links that carry a flow, by trying all paths.
Load BestByHand(Fabric& fabric, const Commodities& flows, const Units& base) {
  std::vector<std::int32_t> paths(flows.size());
  Load best{1'000'000, 1};
  const std::function<void(std::size_t)> try_all = [&](std::size_t next) {
    if (next < flows.size()) {
      const auto& candidates = fabric.view.Candidates(flows[next].source, flows[next].destination);
      for (std::size_t path = 0; path < candidates.size(); ++path) {
        paths[next] = static_cast<std::int32_t>(path);
        try_all(next + 1);
      }
      return;
    }
    Units loads(base.size());
    std::vector<std::uint32_t> hops;
    for (std::size_t i = 0; i < flows.size(); ++i)
      fabric.view.AppendHops(flows[i].source, flows[i].destination, paths[i], hops);
    for (const std::uint32_t link : hops) loads[link] += kLoadUnit;
    for (std::size_t link = 0; link < loads.size(); ++link) {
      if (loads[link] > 0) loads[link] += base[link];
    }
    best = std::min(best, ComputeMaxLoad(fabric.view, loads));
  };
  try_all(0);
  return best;
}

TEST(BaseLoads, KeepFlowsOffALinkThatTheyFill) {
  const auto fabric = Fabric::LeafSpine(3, 2);
  OnlineAssigner paths(fabric->view);
  Units base(fabric->view.capacities().size());
  base[Uplink(*fabric, 0, 0)] = kLoadUnit;
  paths.SetBaseLoads(base);
  EXPECT_EQ(paths.MaxLoad(), (Load{1, 1}));
  std::vector<SubflowId> flows;
  for (int i = 0; i < 2; ++i) {
    flows.push_back(paths.Add(0, 1));
    paths.Start(flows.back(), {});
    EXPECT_NE(paths.PathOf(flows.back()), 0);
    EXPECT_TRUE(paths.IsWithinLimits(flows.back()));
  }
  EXPECT_EQ(paths.MaxLoad(), (Load{1, 1}));
  // The third one shares some link; on the first spine the foreign flow would be its peer.
  flows.push_back(paths.Add(0, 1));
  paths.Start(flows.back(), {});
  EXPECT_EQ(paths.MaxLoad(), (Load{2, 1}));
  // The foreign flow has ended.
  paths.SetBaseLoads({});
  paths.Rebalance(kAnyMoves);
  EXPECT_EQ(paths.MaxLoad(), (Load{1, 1}));
}

TEST(BaseLoads, MoveAFlowThatIsThereIfMovesAreAllowed) {
  const auto fabric = Fabric::LeafSpine(3, 2);
  OnlineAssigner paths(fabric->view);
  const SubflowId flow = paths.Add(0, 1);
  paths.Start(flow, {});
  ASSERT_EQ(paths.PathOf(flow), 0);
  Units base(fabric->view.capacities().size());
  base[Uplink(*fabric, 0, 0)] = kLoadUnit / 2;
  paths.SetBaseLoads(base);
  EXPECT_FALSE(paths.IsWithinLimits(flow));
  EXPECT_TRUE(paths.Rebalance({}).empty());
  EXPECT_EQ(paths.PathOf(flow), 0);
  EXPECT_EQ(paths.Rebalance({.max_moves = 1}).size(), 1U);
  EXPECT_NE(paths.PathOf(flow), 0);
  EXPECT_TRUE(paths.IsWithinLimits(flow));
}

TEST(BaseLoads, SpreadFlowsOverWhatIsLeft) {
  const auto fabric = Fabric::LeafSpine(4, 2);
  OnlineAssigner paths(fabric->view);
  Units base(fabric->view.capacities().size());
  for (int spine = 0; spine < 4; ++spine) base[Uplink(*fabric, 0, spine)] = kLoadUnit * spine / 4;
  paths.SetBaseLoads(base);
  std::vector<SubflowId> flows;
  for (int i = 0; i < 6; ++i) flows.push_back(paths.Add(0, 1));
  paths.PlaceArrivals(flows, kAnyMoves);
  // Two on each of the first two, one on each of the others.
  EXPECT_EQ(paths.LoadOf(Uplink(*fabric, 0, 0)), 2 * kLoadUnit);
  EXPECT_EQ(paths.LoadOf(Uplink(*fabric, 0, 1)), 2 * kLoadUnit + kLoadUnit / 4);
  EXPECT_EQ(paths.LoadOf(Uplink(*fabric, 0, 2)), kLoadUnit + kLoadUnit / 2);
  EXPECT_EQ(paths.LoadOf(Uplink(*fabric, 0, 3)), kLoadUnit + kLoadUnit * 3 / 4);
}

// Whatever base loads come and go, the tables stay consistent, and without them the assignment is
// as good as if there had never been any.
TEST(BaseLoads, LeaveNoTraceWhenTheyAreGone) {
  for (const std::uint64_t seed : SeedsToTry(1, 60)) {
    SCOPED_TRACE(seed);
    std::mt19937 random(static_cast<std::uint32_t>(seed));
    const auto fabric = Fabric::LeafSpine(2 + static_cast<int>(random() % 4), 4);
    OnlineAssigner paths(fabric->view);
    struct Placed {
      SubflowId id;
      Commodity flow;
      std::int64_t share;
    };
    std::vector<Placed> all;
    Units base(fabric->view.capacities().size());
    for (int step = 0; step < 120; ++step) {
      const auto what = static_cast<std::uint32_t>(random() % 10);
      if (what < 5) {
        const Commodity flow{.source = static_cast<std::uint32_t>(random() % 2),
                             .destination = static_cast<std::uint32_t>(2 + random() % 2)};
        const std::int64_t share = random() % 4 == 0 ? kLoadUnit / 2 : kLoadUnit;
        all.push_back({paths.Add(flow.source, flow.destination, share), flow, share});
        paths.Start(all.back().id, kAnyMoves);
      } else if (what < 8 && !all.empty()) {
        std::swap(all[random() % all.size()], all.back());
        paths.Remove(all.back().id);
        all.pop_back();
      } else {
        base = RandomBase(random, *fabric, random() % 3 == 0 ? 0 : 40);
        paths.SetBaseLoads(base);
        paths.Rebalance(kAnyMoves);
      }
      Units expected = base;
      for (const Placed& placed : all) {
        for (const std::uint32_t link : paths.LinksOf(placed.id)) expected[link] += placed.share;
      }
      ASSERT_EQ(paths.Loads(), expected) << "step " << step;
    }
    std::erase_if(all, [&](const Placed& placed) {
      if (placed.share == kLoadUnit) return false;
      paths.Remove(placed.id);
      return true;
    });
    paths.SetBaseLoads({});
    paths.Rebalance(kAnyMoves);
    Commodities flows;
    for (const Placed& placed : all) flows.push_back(placed.flow);
    Assigner assigner(fabric->view);
    EXPECT_EQ(paths.MaxLoad(), assigner.Optimal(flows, {.step_budget = 0}).max_load);
  }
}

TEST(BaseLoads, AreWithinOneFlowOfTheBoundOnline) {
  int at_bound = 0;
  int runs = 0;
  for (const std::uint64_t seed : SeedsToTry(1, 100)) {
    SCOPED_TRACE(seed);
    std::mt19937 random(static_cast<std::uint32_t>(seed));
    const auto fabric = Fabric::LeafSpine(4, 6);
    const Units base = RandomBase(random, *fabric, 25);
    const Commodities flows = RandomFlows(random, 6, 1 + static_cast<std::uint32_t>(random() % 6));
    OnlineAssigner paths(fabric->view);
    paths.SetBaseLoads(base);
    std::vector<SubflowId> subflows;
    for (const Commodity& flow : flows) {
      if (flow.source != flow.destination)
        subflows.push_back(paths.Add(flow.source, flow.destination));
    }
    if (subflows.empty()) continue;
    paths.PlaceArrivals(subflows, kAnyMoves);
    Units used = paths.Loads();
    for (std::size_t link = 0; link < used.size(); ++link) {
      if (used[link] == base[link]) used[link] = 0;
    }
    const Load bound = ComputeLowerBound(fabric->view, flows, base);
    const Load found = ComputeMaxLoad(fabric->view, used);
    EXPECT_GE(found, bound);
    EXPECT_LE(found.Value(), bound.Value() + 1);
    ++runs;
    at_bound += found == bound ? 1 : 0;
  }
  RecordProperty("at_bound", at_bound);
  EXPECT_GE(at_bound * 10, runs * 5) << at_bound << " of " << runs;
}

TEST(BaseLoads, OptimalIsTheBestByHandInSmallFabrics) {
  int best = 0;
  int runs = 0;
  for (const std::uint64_t seed : SeedsToTry(1, 150)) {
    SCOPED_TRACE(seed);
    std::mt19937 random(static_cast<std::uint32_t>(seed));
    const auto fabric = Fabric::LeafSpine(3, 3);
    const Units base = RandomBase(random, *fabric, 40);
    Commodities flows = RandomFlows(random, 3, 2);
    std::erase_if(flows, [](const Commodity& flow) { return flow.source == flow.destination; });
    if (flows.empty()) continue;
    Assigner assigner(fabric->view);
    const Load by_hand = BestByHand(*fabric, flows, base);
    EXPECT_LE(ComputeLowerBound(fabric->view, flows, base), by_hand);
    const Load floor = ComputeMaxLoad(fabric->view, base);
    const Assignment result = assigner.Optimal(flows, {.base_loads = base});
    EXPECT_GE(result.max_load, std::max(by_hand, floor));
    EXPECT_LE(result.max_load, assigner.Greedy(flows, {.base_loads = base}).max_load);
    ++runs;
    best += result.max_load == std::max(by_hand, floor) ? 1 : 0;
  }
  EXPECT_GE(best * 100, runs * 95) << best << " of " << runs;
}

TEST(FixedPaths, StayAndTheOthersGoAround) {
  const auto fabric = Fabric::LeafSpine(2, 2);
  const Commodities flows(3, {.source = 0, .destination = 1});
  Assigner assigner(fabric->view);
  // The first two are on the first spine, and only the third can move.
  const std::vector<std::int32_t> fixed = {0, 0, kNoPath};
  for (const bool optimal : {true, false}) {
    const Assignment result = optimal ? assigner.Optimal(flows, {.fixed_paths = fixed})
                                      : assigner.Greedy(flows, {.fixed_paths = fixed});
    EXPECT_EQ(result.paths, (std::vector<std::int32_t>{0, 0, 1}));
    EXPECT_EQ(result.max_load, (Load{2, 1}));
    EXPECT_EQ(result.lower_bound, (Load{2, 1}));
  }
}

// Eight flows that cannot move fill a link; this must not keep the others from being spread.
TEST(FixedPaths, DoNotHideTheLoadThatCanBeLowered) {
  const auto fabric = Fabric::LeafSpine(4, 4);
  Commodities flows(8, {.source = 0, .destination = 1});
  std::vector<std::int32_t> fixed(8, 0);
  for (std::uint32_t i = 0; i < 8; ++i) flows.push_back({.source = 2 + i % 2, .destination = 0});
  fixed.resize(flows.size(), kNoPath);
  Assigner assigner(fabric->view);
  const Assignment result = assigner.Optimal(flows, {.fixed_paths = fixed});
  EXPECT_EQ(result.max_load, (Load{8, 1}));
  EXPECT_EQ(result.lower_bound, (Load{8, 1}));
  const Units loads = ComputeLoads(fabric->view, flows, result);
  for (int spine = 0; spine < 4; ++spine) {
    EXPECT_EQ(loads[LinkOf(*fabric, "leaf0--spine" + std::to_string(spine), false)], 2 * kLoadUnit);
  }
}

TEST(BaseLoads, WorkInThreeTiersAndWithUnequalRates) {
  std::mt19937 random(14);
  auto spec = *fabric::BuildFatTree({.k = 4});
  for (fabric::Link& link : spec.links) {
    if (random() % 4 == 0) link.rate = BitsPerSecond{link.rate.value / 2};
  }
  Fabric fabric(std::move(spec));
  OnlineAssigner paths(fabric.view);
  Assigner assigner(fabric.view);
  Commodities flows;
  for (int step = 0; step < 60; ++step) {
    const Units base = RandomBase(random, fabric, 20);
    paths.SetBaseLoads(base);
    const auto source = static_cast<std::uint32_t>(random() % fabric.view.leaf_count());
    const auto other = static_cast<std::uint32_t>(random() % (fabric.view.leaf_count() - 1));
    flows.push_back({.source = source, .destination = other < source ? other : other + 1});
    const SubflowId flow = paths.Add(source, flows.back().destination);
    EXPECT_FALSE(paths.Start(flow, kAnyMoves).empty());
    paths.Rebalance(kAnyMoves);
    const Assignment result = assigner.Optimal(flows, {.base_loads = base});
    EXPECT_GE(result.max_load, result.lower_bound);
    EXPECT_LE(paths.MaxLoad().Value(), result.max_load.Value() + 3) << step;
  }
}

}  // namespace
}  // namespace espalier::controller
