#include "collective/forest/planner/reuse_trees.h"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "collective/forest/planner/planner.h"
#include "common/fabric/accelerator_builders.h"
#include "common/fabric/builders.h"
#include "tests/collective/forest/random_problem.h"
#include "tests/collective/forest/reference_cases.h"

namespace espalier::forest {
namespace {

using fabric::LinkState;
using fabric::NodeId;
using fabric::Topology;

constexpr std::uint64_t kSeed = 11'072'026;

// The topology with every link of the node down.
Topology Without(const Topology& topology, const std::string& node) {
  Topology damaged = topology;
  const NodeId id = *topology.FindNode(node);
  for (const fabric::DirectedLink link : topology.Outgoing(id)) {
    damaged.SetLinkState(link.link, LinkState::kDown);
  }
  return damaged;
}

VerifiedSchedule PlanOrDie(const Topology& topology, const ScheduleOptions& options = {}) {
  auto made = MakeTreeSchedule(topology, options);
  EXPECT_TRUE(made.has_value()) << made.error().message;
  return std::move(*made);
}

ScheduleOptions After(const TreeSchedule& plan, const Topology& topology,
                      ScheduleOptions options = {}) {
  options.previous = PreviousSchedule{&plan, &topology};
  return options;
}

// The links are two-way, so any may fail and all nodes stay balanced.
Topology MakeTwoWayGraph(std::mt19937_64& random) {
  fabric::TopologySpec spec = MakeRandomGraph({.max_rate = 1'000}, random);
  std::set<std::pair<NodeId, NodeId>> seen;
  std::vector<fabric::Link> links;
  for (fabric::Link& link : spec.links) {
    link.directed = false;
    if (seen.insert(std::minmax(link.a, link.b)).second) links.push_back(link);
  }
  spec.links = std::move(links);
  return BuildTopology(std::move(spec));
}

TEST(ReuseTrees, IsAsFastAsANewForestOnRandomGraphs) {
  std::mt19937_64 random(kSeed);
  int damaged_graphs = 0;
  int partly_kept = 0;
  int fresh = 0;
  for (int round = 0; round < 40; ++round) {
    SCOPED_TRACE(testing::Message() << "seed " << kSeed << " round " << round);
    const Topology topology = MakeTwoWayGraph(random);
    const ScheduleOptions options{.collective = round % 3 == 0 ? Collective::kAllreduce
                                                               : Collective::kAllgather};
    const auto before = MakeTreeSchedule(topology, options);
    if (!before) continue;  // not connected
    const VerifiedSchedule same = PlanOrDie(topology, After(before->schedule, topology, options));
    EXPECT_EQ(same.reuse.kept, same.reuse.all);
    EXPECT_EQ(same.schedule.trees_per_weight, before->schedule.trees_per_weight);

    Topology damaged = topology;
    damaged.SetLinkState(
        fabric::LinkId(static_cast<std::int32_t>(random() % topology.links().size())),
        LinkState::kDown);
    const auto anew = MakeTreeSchedule(damaged, options);
    if (!anew) continue;
    ++damaged_graphs;
    const VerifiedSchedule replanned =
        PlanOrDie(damaged, After(before->schedule, topology, options));
    EXPECT_EQ(replanned.schedule.inverse_rate, anew->schedule.inverse_rate);
    EXPECT_EQ(replanned.schedule.bound_inverse_rate, anew->schedule.bound_inverse_rate);
    fresh += replanned.reuse.kept == 0;
    partly_kept += replanned.reuse.kept > 0 && replanned.reuse.kept < replanned.reuse.all;

    // Back again: the schedule for the damaged graph serves the repaired one.
    const VerifiedSchedule repaired =
        PlanOrDie(topology, After(replanned.schedule, damaged, options));
    EXPECT_EQ(repaired.schedule.inverse_rate, before->schedule.inverse_rate);
  }
  EXPECT_GT(damaged_graphs, 15);
  EXPECT_GT(partly_kept, 3);
  EXPECT_GT(fresh, 0);
}

// Counts the trees of a schedule that another one has, too, whatever their paths are.
std::int64_t CountTreesOf(const TreeSchedule& before, const TreeSchedule& after) {
  EXPECT_EQ(before.forests.size(), after.forests.size());
  std::int64_t trees = 0;
  for (std::size_t f = 0; f < after.forests.size(); ++f) {
    std::set<std::vector<Rank>> known;
    for (std::size_t c = 0; c < before.forests[f].classes.size(); ++c) {
      const std::span<const Rank> parents = before.forests[f].Parents(c);
      known.emplace(parents.begin(), parents.end());
    }
    for (std::size_t c = 0; c < after.forests[f].classes.size(); ++c) {
      const std::span<const Rank> parents = after.forests[f].Parents(c);
      if (known.contains({parents.begin(), parents.end()})) {
        trees += after.forests[f].classes[c].count;
      }
    }
  }
  return trees;
}

TEST(ReuseTrees, KeepsBothForestsOrNoneOnOneWayLinks) {
  std::mt19937_64 random(kSeed + 1);
  int kept = 0;
  for (int round = 0; round < 100; ++round) {
    SCOPED_TRACE(testing::Message() << "seed " << kSeed + 1 << " round " << round);
    const Topology topology = BuildTopology(MakeRandomGraph({.max_rate = 100}, random));
    ScheduleOptions options{.collective = Collective::kAllreduce, .height_steps = 1'000};
    const auto before = MakeTreeSchedule(topology, options);
    if (!before || before->schedule.ranks.size() < 3) continue;
    // One rank has a smaller weight; the links are unchanged.
    options.problem.weights.assign(before->schedule.ranks.size(), 2);
    options.problem.weights.back() = 1;
    const auto anew = MakeTreeSchedule(topology, options);
    ASSERT_TRUE(anew.has_value());
    const VerifiedSchedule replanned =
        PlanOrDie(topology, After(before->schedule, topology, options));
    EXPECT_EQ(replanned.schedule.inverse_rate, anew->schedule.inverse_rate);
    kept += replanned.reuse.kept > 0;
    EXPECT_LE(replanned.reuse.kept, CountTreesOf(before->schedule, replanned.schedule));
  }
  EXPECT_GT(kept, 10);
}

TEST(ReuseTrees, KeepsMostTreesIfLittleIsBroken) {
  const Topology boxes = BuildTopology(*fabric::BuildA100({4}));
  const VerifiedSchedule before = PlanOrDie(boxes);
  const Topology damaged = Without(boxes, "box0/nic0");
  const VerifiedSchedule after = PlanOrDie(damaged, After(before.schedule, boxes));
  EXPECT_EQ(after.schedule.inverse_rate, PlanOrDie(damaged).schedule.inverse_rate);
  // Four of 32 trees use the NIC.
  EXPECT_EQ(8 * after.reuse.kept, 7 * after.reuse.all);

  EXPECT_LE(after.findings.heights.max, 3);
  EXPECT_EQ(after.schedule.forests[0].unroutable_edges, 0);
}

// Returns the parent arrays of a schedule's only forest, each once per tree, by root.
std::multiset<std::vector<Rank>> LogicalTrees(const TreeSchedule& plan) {
  std::multiset<std::vector<Rank>> trees;
  const Forest& forest = plan.forests[0];
  for (std::size_t c = 0; c < forest.classes.size(); ++c) {
    const std::span<const Rank> parents = forest.Parents(c);
    for (std::int64_t i = 0; i < forest.classes[c].count; ++i) {
      trees.emplace(parents.begin(), parents.end());
    }
  }
  return trees;
}

TEST(ReuseTrees, ReroutesEveryTreeAroundADeadSpine) {
  const Topology clos =
      BuildTopology(*fabric::BuildLeafSpine({.spines = 4, .leaves = 4, .hosts_per_leaf = 4}));
  const VerifiedSchedule before = PlanOrDie(clos);
  const Topology damaged = Without(clos, "spine3");
  const VerifiedSchedule after = PlanOrDie(damaged, After(before.schedule, clos));
  EXPECT_EQ(after.schedule.inverse_rate, PlanOrDie(damaged).schedule.inverse_rate);
  EXPECT_EQ(after.reuse.all, 16);
  EXPECT_EQ(after.reuse.kept, 16);
  EXPECT_EQ(after.reuse.rerouted, 4);  // one spine in four
  EXPECT_EQ(LogicalTrees(after.schedule), LogicalTrees(before.schedule));
  EXPECT_EQ(after.schedule.forests[0].method, Method::kHierarchical);
  EXPECT_EQ(after.schedule.forests[0].unroutable_edges, 0);

  // Back again: the paths over the other spines are as good as before.
  const VerifiedSchedule repaired = PlanOrDie(clos, After(after.schedule, damaged));
  EXPECT_EQ(repaired.reuse.kept, 16);
  EXPECT_EQ(repaired.reuse.rerouted, 0);
}

TEST(ReuseTrees, ReroutesTreesAroundADeadSpineThatSlowsThemDown) {
  fabric::LeafSpineOptions options{.spines = 3, .leaves = 4, .hosts_per_leaf = 4};
  options.fabric_rate = BitsPerSecond{options.host_rate.value / 5};
  const Topology clos = BuildTopology(*fabric::BuildLeafSpine(options));
  const VerifiedSchedule before = PlanOrDie(clos);
  const Topology damaged = Without(clos, "spine2");
  const VerifiedSchedule after = PlanOrDie(damaged, After(before.schedule, clos));
  EXPECT_EQ(after.schedule.inverse_rate, PlanOrDie(damaged).schedule.inverse_rate);
  EXPECT_GT(after.schedule.inverse_rate, before.schedule.inverse_rate);
  EXPECT_GE(2 * after.reuse.kept, after.reuse.all);
  EXPECT_GT(after.reuse.rerouted, 0);
  EXPECT_EQ(after.schedule.forests[0].unroutable_edges, 0);
}

TEST(ReuseTrees, KeepsTreesThatHaveNotLostTheirRails) {
  const Topology boxes = BuildTopology(*fabric::BuildA100({4}));
  const VerifiedSchedule before = PlanOrDie(boxes);
  const Topology damaged = Without(boxes, "ib1");
  const VerifiedSchedule after = PlanOrDie(damaged, After(before.schedule, boxes));
  EXPECT_EQ(after.schedule.inverse_rate, PlanOrDie(damaged).schedule.inverse_rate);
  // The odd GPUs leave their boxes only through others: edges of other trees.
  EXPECT_EQ(2 * after.reuse.kept, after.reuse.all);
  EXPECT_EQ(after.reuse.rerouted, 0);
  EXPECT_LE(after.findings.heights.max, 4);
  EXPECT_EQ(after.schedule.forests[0].unroutable_edges, 0);
}

TEST(ReuseTrees, BuildsANewForestIfEveryTreeIsBroken) {
  const Topology clos =
      BuildTopology(*fabric::BuildLeafSpine({.spines = 2, .leaves = 2, .hosts_per_leaf = 2}));
  const VerifiedSchedule before = PlanOrDie(clos);
  // The same hosts, in a ring without switches.
  fabric::TopologySpec ring;
  for (const NodeId rank : before.schedule.ranks) ring.nodes.push_back(clos.node(rank));
  for (int i = 0; i < 4; ++i) {
    ring.links.push_back({.a = NodeId(i), .b = NodeId((i + 1) % 4), .rate = BitsPerSecond{1'000}});
  }
  const Topology other = BuildTopology(std::move(ring));
  const VerifiedSchedule after = PlanOrDie(other, After(before.schedule, clos));
  EXPECT_EQ(after.schedule.inverse_rate, PlanOrDie(other).schedule.inverse_rate);
  EXPECT_EQ(after.reuse.kept, 0);
  EXPECT_EQ(after.schedule.forests[0].method, Method::kLabels);
}

TEST(ReuseTrees, KeepsTreesIfAllLinksGetSlower) {
  const VerifiedSchedule before = PlanOrDie(BuildTopology(*fabric::BuildA100({4})));
  const Topology boxes = BuildTopology(*fabric::BuildA100({4}));
  fabric::TopologySpec spec = boxes.Spec();
  for (fabric::Link& link : spec.links) link.rate.value /= 2;
  const VerifiedSchedule after = PlanOrDie(BuildTopology(spec), After(before.schedule, boxes));
  EXPECT_EQ(after.reuse.kept, after.reuse.all);
  EXPECT_EQ(after.schedule.forests[0].classes, before.schedule.forests[0].classes);
  EXPECT_EQ(after.schedule.forests[0].parents, before.schedule.forests[0].parents);
}

TEST(ReuseTrees, CutsOffRanksThatTakeNoPart) {
  const Topology boxes = BuildTopology(*fabric::BuildA100({4}));
  const VerifiedSchedule before = PlanOrDie(boxes);
  ScheduleOptions three;
  for (const NodeId rank : before.schedule.ranks) {
    if (!boxes.node(rank).id.starts_with("box3/")) three.problem.ranks.push_back(rank);
  }
  const VerifiedSchedule after = PlanOrDie(boxes, After(before.schedule, boxes, three));
  EXPECT_EQ(after.schedule.inverse_rate, PlanOrDie(boxes, three).schedule.inverse_rate);
  EXPECT_EQ(after.reuse.kept, after.reuse.all);
  EXPECT_EQ(after.schedule.ranks.size(), 24U);
}

TEST(ReuseTrees, KeepsToAFixedNumberOfTrees) {
  const Topology clos =
      BuildTopology(*fabric::BuildLeafSpine({.spines = 2, .leaves = 4, .hosts_per_leaf = 2}));
  const VerifiedSchedule before = PlanOrDie(clos, {.trees_per_weight = 2});
  const Topology damaged = Without(clos, "spine1");
  const ScheduleOptions options{.trees_per_weight = 2};
  const VerifiedSchedule after = PlanOrDie(damaged, After(before.schedule, clos, options));
  EXPECT_EQ(after.schedule.trees_per_weight, 2);
  EXPECT_EQ(after.schedule.inverse_rate, PlanOrDie(damaged, options).schedule.inverse_rate);
}

TEST(ReuseTrees, RefusesAMalformedPreviousForest) {
  const Topology boxes = BuildTopology(*fabric::BuildA100({2}));
  const TreeSchedule good = PlanOrDie(boxes).schedule;
  const auto error = [&](const TreeSchedule& plan) {
    const auto made = MakeTreeSchedule(boxes, After(plan, boxes));
    return made ? "(none)" : made.error().message;
  };
  TreeSchedule bad = good;
  bad.forests[0].parents.pop_back();
  EXPECT_NE(error(bad).find("array sizes do not match"), std::string::npos) << error(bad);
  bad = good;
  bad.forests[0].Parents(0)[(bad.forests[0].classes[0].root + 1U) % 16] = kNoRank;
  EXPECT_NE(error(bad).find("does not span"), std::string::npos) << error(bad);
  bad = good;
  bad.forests[0].classes[0].count += 1'000'000;
  EXPECT_NE(error(bad).find("routes for fewer"), std::string::npos) << error(bad);
  bad = good;
  bad.phases[0].channels.clear();
  EXPECT_NE(error(bad).find("a hop does not exist"), std::string::npos) << error(bad);
  // Paths that lead elsewhere count as lost.
  bad = good;
  std::swap(bad.phases[0].channels.front(), bad.phases[0].channels.back());
  EXPECT_EQ(error(bad), "(none)");
}

}  // namespace
}  // namespace espalier::forest
