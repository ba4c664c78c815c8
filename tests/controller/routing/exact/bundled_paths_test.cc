#include "controller/routing/exact/bundled_paths.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <vector>

#include "controller/routing/assigner.h"
#include "controller/routing/bounds/load_bounds.h"
#include "controller/routing/bounds/standing_proof.h"
#include "controller/routing/online/online_assigner.h"
#include "tests/controller/routing/bundled_fabric.h"
#include "tests/controller/routing/test_fabric.h"
#include "tests/seeds.h"

namespace espalier::controller {
namespace {

Commodities AnyFlows(std::mt19937& random, std::uint32_t ends, int count, std::uint32_t subflows) {
  Commodities flows;
  for (int i = 0; i < count; ++i) {
    flows.push_back({.source = static_cast<std::uint32_t>(random() % ends),
                     .destination = static_cast<std::uint32_t>(random() % ends),
                     .subflows = subflows});
  }
  return flows;
}

// The bounds of the statement: ceil(d / uplinks) for a NIC, ceil(D / (spines x leaves x members))
// for a group, in subflows.
Load BoundOf(const Fabric& fabric, const BundledShape& shape, const Commodities& flows,
             std::uint32_t subflows) {
  std::map<std::uint32_t, std::pair<int, int>> of_end;
  std::map<std::uint32_t, std::pair<int, int>> of_group;
  const auto& group_of = fabric.view.bundled_clos()->group_of;
  for (const Commodity& flow : flows) {
    if (flow.source == flow.destination) continue;
    of_end[flow.source].first += static_cast<int>(subflows);
    of_end[flow.destination].second += static_cast<int>(subflows);
    if (group_of[flow.source] == group_of[flow.destination]) continue;
    of_group[group_of[flow.source]].first += static_cast<int>(subflows);
    of_group[group_of[flow.destination]].second += static_cast<int>(subflows);
  }
  Load bound;
  const auto raise = [&](const auto& counts, int links, std::int64_t gbps) {
    for (const auto& [key, both] : counts) {
      const std::int64_t most = std::max(both.first, both.second);
      bound =
          std::max(bound, MakeLoad(fabric.view, (most + links - 1) / links * (kLoadUnit / subflows),
                                   gbps * 1'000'000'000));
    }
  };
  if (fabric.view.bundled_clos()->has_uplinks) {
    raise(of_end, shape.leaves * shape.uplinks, shape.uplink_gbps);
  }
  raise(of_group, shape.spines * shape.leaves * shape.members, shape.fabric_gbps);
  return bound;
}

TEST(BundledPaths, MeetBothBoundsAtOnceForAnyFlowsAndRates) {
  int compared = 0;
  for (const std::uint64_t seed : SeedsToTry(1, 400)) {
    SCOPED_TRACE(seed);
    std::mt19937 random(static_cast<std::uint32_t>(seed));
    const auto draw = [&](int least, int most) {
      return least + static_cast<int>(random() % static_cast<unsigned>(most - least + 1));
    };
    BundledShape shape{.groups = draw(2, 6),
                       .nics = draw(1, 6),
                       .leaves = draw(1, 3),
                       .spines = draw(1, 6),
                       .uplinks = draw(1, 2),
                       .members = draw(1, 2),
                       .uplink_gbps = 100 * draw(1, 4),
                       .fabric_gbps = 100 * draw(1, 4)};
    if (shape.leaves * shape.uplinks == 1) shape.members = 2;
    Fabric fabric(MakeBundled(shape, random));
    if (!fabric.view.bundled_clos()) continue;
    const auto subflows = static_cast<std::uint32_t>(draw(1, 3));
    const Commodities flows = AnyFlows(random, fabric.view.leaf_count(), draw(1, 80), subflows);
    Assignment assignment;
    assignment.Clear(flows);
    ASSERT_TRUE(BundledPaths(fabric.view).Assign(flows, assignment));
    ++compared;
    const Load bound = BoundOf(fabric, shape, flows, subflows);
    EXPECT_EQ(assignment.max_load, bound);
    EXPECT_EQ(assignment.lower_bound, bound);
    EXPECT_EQ(assignment.proof, Proof::kBundles);
    EXPECT_EQ(ComputeMaxLoad(fabric.view, ComputeLoads(fabric.view, flows, assignment)), bound);
    EXPECT_EQ(ComputeLowerBound(fabric.view, flows), bound) << "the general bound sees groups, too";
    for (std::size_t i = 0; i < flows.size(); ++i) {
      const bool is_local = flows[i].source == flows[i].destination;
      for (const std::int32_t path : assignment.PathsOf(i)) EXPECT_EQ(path == kNoPath, is_local);
    }
  }
  EXPECT_GT(compared, 200);
}

// The least maximum load of unit flows over all assignments.
std::int64_t LeastLoad(const Fabric& fabric, const Commodities& flows, std::size_t next,
                       std::vector<std::int64_t>& loads, std::int64_t most, std::int64_t best) {
  if (most >= best) return best;
  if (next == flows.size()) return most;
  const Commodity& flow = flows[next];
  const CandidatePaths& paths = fabric.view.Candidates(flow.source, flow.destination);
  for (std::size_t path = 0; path < paths.size(); ++path) {
    const auto hops = paths.Hops(path);
    if (!fabric.view.IsUsable(hops)) continue;
    std::int64_t raised = most;
    for (const std::uint32_t link : hops) raised = std::max(raised, ++loads[link]);
    best = LeastLoad(fabric, flows, next + 1, loads, raised, best);
    for (const std::uint32_t link : hops) --loads[link];
  }
  return best;
}

TEST(BundledPaths, HaveTheLeastLoadOfAllAssignments) {
  for (const std::uint64_t seed : SeedsToTry(1, 60)) {
    SCOPED_TRACE(seed);
    std::mt19937 random(static_cast<std::uint32_t>(seed));
    const BundledShape shape{.spines = 1 + static_cast<int>(seed % 2),
                             .members = 1 + static_cast<int>(seed % 3 == 0)};
    Fabric fabric(MakeBundled(shape, random));
    ASSERT_TRUE(fabric.view.bundled_clos());
    // In some cases a leaf is dead for all.
    if (seed % 4 == 0) {
      fabric.Fail("n0-l0.0");
      fabric.Fail("n1-l0.0");
    }
    Commodities flows = AnyFlows(random, 4, 6, 1);
    std::erase_if(flows, [](const Commodity& flow) { return flow.source == flow.destination; });
    if (flows.empty()) continue;
    Assignment assignment;
    assignment.Clear(flows);
    ASSERT_TRUE(BundledPaths(fabric.view).Assign(flows, assignment));
    std::vector<std::int64_t> loads(fabric.view.capacities().size());
    const std::int64_t least = LeastLoad(fabric, flows, 0, loads, 0, 100);
    EXPECT_EQ(assignment.max_load, (Load{least, 1}));
    EXPECT_EQ(assignment.lower_bound, (Load{least, 1}));
  }
}

// One flow after the other, with chains: the least load or one flow more, also where spines are
// few.
TEST(BundledPaths, ArrivalsStayNearTheLeastLoad) {
  for (const std::uint64_t seed : SeedsToTry(1, 40)) {
    SCOPED_TRACE(seed);
    std::mt19937 random(static_cast<std::uint32_t>(seed));
    const BundledShape shape{.groups = 3, .nics = 4, .spines = 1 + static_cast<int>(seed % 4)};
    Fabric fabric(MakeBundled(shape, random));
    Commodities flows = AnyFlows(random, 12, 30, 1);
    std::erase_if(flows, [](const Commodity& flow) { return flow.source == flow.destination; });
    OnlineAssigner online(fabric.view);
    std::vector<SubflowId> subflows;
    for (const Commodity& flow : flows) {
      subflows.push_back(online.Add(flow.source, flow.destination));
    }
    online.PlaceArrivals(subflows, {.max_moves = 64});
    const Load least = BoundOf(fabric, shape, flows, 1);
    const Load found = online.MaxLoad();
    EXPECT_GE(found, least);
    EXPECT_LE(found, (Load{least.numerator + 1, 1}));
  }
}

// NICs whose uplinks are in planes of their own are a folded Clos. Where spines are as many as NICs
// of a group, or all flows leave their group, both bounds hold at once.
TEST(BundledPaths, LeaveTwoPlanesToStages) {
  int compared = 0;
  for (const std::uint64_t seed : SeedsToTry(1, 120)) {
    SCOPED_TRACE(seed);
    std::mt19937 random(static_cast<std::uint32_t>(seed));
    const int nics = 1 + static_cast<int>(random() % 4);
    const int per_plane = 1 + static_cast<int>(random() % 4);
    const int groups = 2 + static_cast<int>(random() % 3);
    Fabric fabric(*fabric::BuildLeafSpine({.spines = 2 * per_plane,
                                           .leaves = 2 * groups,
                                           .hosts_per_leaf = nics,
                                           .planes = 2,
                                           .uplinks = 2}));
    ASSERT_TRUE(fabric.view.folded_clos());
    EXPECT_FALSE(fabric.view.bundled_clos());
    const auto ends = static_cast<std::uint32_t>(groups * nics);
    Commodities flows = AnyFlows(random, ends, 1 + static_cast<int>(random() % 60), 1);
    const auto group_of = [&](std::uint32_t end) { return end / static_cast<unsigned>(nics); };
    const bool must_leave = per_plane < nics;
    std::erase_if(flows, [&](const Commodity& flow) {
      const bool is_within = group_of(flow.source) == group_of(flow.destination);
      return flow.source == flow.destination || (must_leave && is_within);
    });
    if (flows.empty()) continue;
    std::map<std::uint32_t, std::int64_t> degrees;  // by NIC and direction, then by group
    std::map<std::uint32_t, std::int64_t> of_group;
    for (const Commodity& flow : flows) {
      ++degrees[2 * flow.source];
      ++degrees[2 * flow.destination + 1];
      if (group_of(flow.source) == group_of(flow.destination)) continue;
      ++of_group[2 * group_of(flow.source)];
      ++of_group[2 * group_of(flow.destination) + 1];
    }
    std::int64_t bound = 0;
    for (const auto& [end, count] : degrees) bound = std::max(bound, (count + 1) / 2);
    const std::int64_t links = 2 * per_plane;
    for (const auto& [group, count] : of_group) {
      bound = std::max(bound, (count + links - 1) / links);
    }
    Assigner assigner(fabric.view);
    const Assignment& found = assigner.Optimal(flows);
    EXPECT_EQ(found.max_load, (Load{bound, 1}));
    EXPECT_EQ(found.lower_bound, (Load{bound, 1}));
    ++compared;
  }
  EXPECT_GT(compared, 80);
}

// Two planes would need a load of 2 here (an example of six flows between two pairs of leaves).
TEST(BundledPaths, CrossBetweenTheLeavesOfAPair) {
  std::mt19937 random(1);
  Fabric fabric(MakeBundled({.spines = 1}, random));
  const auto end = [&](const char* nic) {
    return *fabric.view.LeafOf(*fabric.topology.FindNode(nic));
  };
  const std::uint32_t u = end("n0");
  const std::uint32_t w = end("n1");
  const std::uint32_t x = end("n2");
  const std::uint32_t y = end("n3");
  const Commodities flows = {{x, y}, {y, u}, {w, y}, {u, x}, {w, u}, {x, w}};
  Assigner assigner(fabric.view);
  const Assignment& assignment = assigner.Optimal(flows);
  EXPECT_EQ(assignment.max_load, (Load{1, 1}));
  EXPECT_EQ(assignment.proof, Proof::kBundles);
}

TEST(BundledPaths, DoNotApplyAroundADeadUplinkWhoseBoundIsStillTold) {
  std::mt19937 random(3);
  Fabric fabric(MakeBundled({.nics = 3, .spines = 2}, random));
  EXPECT_EQ(StandingProof(fabric.view), Proof::kBundles);
  fabric.Fail("n0-l0.0");
  EXPECT_EQ(StandingProof(fabric.view), Proof::kNone);
  const std::uint32_t n0 = *fabric.view.LeafOf(*fabric.topology.FindNode("n0"));
  const std::uint32_t far = *fabric.view.LeafOf(*fabric.topology.FindNode("n3"));
  const Commodities flows(4, {.source = n0, .destination = far});
  Assignment assignment;
  assignment.Clear(flows);
  EXPECT_FALSE(BundledPaths(fabric.view).Assign(flows, assignment));
  // Four flows over the one uplink that is left.
  Assigner assigner(fabric.view);
  const Assignment& found = assigner.Optimal(flows);
  EXPECT_EQ(found.max_load, (Load{4, 1}));
  EXPECT_EQ(found.lower_bound, (Load{4, 1}));
}

TEST(BundledPaths, LeaveFlowsOfADeadNicUnroutable) {
  std::mt19937 random(4);
  Fabric fabric(MakeBundled({}, random));
  fabric.Fail("n0-l0.0");
  fabric.Fail("n0-l1.0");
  const std::uint32_t n0 = *fabric.view.LeafOf(*fabric.topology.FindNode("n0"));
  const std::uint32_t n1 = *fabric.view.LeafOf(*fabric.topology.FindNode("n1"));
  const std::uint32_t n2 = *fabric.view.LeafOf(*fabric.topology.FindNode("n2"));
  const Commodities flows = {{n0, n2}, {n2, n0}, {n1, n2}};
  Assignment assignment;
  assignment.Clear(flows);
  ASSERT_TRUE(BundledPaths(fabric.view).Assign(flows, assignment));
  EXPECT_EQ(assignment.paths[0], kNoPath);
  EXPECT_EQ(assignment.paths[1], kNoPath);
  EXPECT_NE(assignment.paths[2], kNoPath);
  EXPECT_EQ(assignment.max_load, (Load{1, 1}));
}

}  // namespace
}  // namespace espalier::controller
