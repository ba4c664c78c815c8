#include "collective/forest/verifier/verifier.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "common/fabric/accelerator_builders.h"

namespace espalier::forest {
namespace {

using fabric::NodeId;
using fabric::Topology;
using testing::HasSubstr;

constexpr std::int32_t kGpus = 8;
constexpr std::int32_t kSwitch = 8;

Topology Box() {
  auto topology = Topology::Build(*fabric::BuildA100({.boxes = 1}));
  EXPECT_TRUE(topology.has_value());
  return *topology;
}

NodeId Node(std::int32_t index) { return NodeId(index); }

// A schedule written by hand: every GPU of the box sends directly to all others, and 7 of 8 shards
// enter each at 2,400 Gbit/s. Hop g is from GPU g to the switch, hop 8 + g from there to GPU g.
TreeSchedule StarPlan() {
  TreeSchedule plan;
  plan.weights.assign(kGpus, 1);
  plan.bound_inverse_rate = Rational(7, 2'400);
  plan.inverse_rate = Rational(7, 2'400);
  plan.tree_gbps = Rational(2'400, 7);
  plan.trees_per_weight = 1;
  Phase phase;
  for (std::int32_t g = 0; g < kGpus; ++g) {
    plan.ranks.push_back(Node(g));
    phase.channels.push_back({Node(g), Node(kSwitch)});
    if (g > 0) plan.cut.push_back(Node(g));
  }
  plan.cut.push_back(Node(kSwitch));
  for (std::int32_t g = 0; g < kGpus; ++g) phase.channels.push_back({Node(kSwitch), Node(g)});
  Forest forest;
  forest.rank_count = kGpus;
  for (std::int32_t root = 0; root < kGpus; ++root) {
    forest.classes.push_back({static_cast<Rank>(root), 1});
    for (std::int32_t g = 0; g < kGpus; ++g) {
      forest.parents.push_back(g == root ? kNoRank : static_cast<Rank>(root));
      if (g == root) continue;
      forest.routes.AddArc(static_cast<Rank>(root), static_cast<Rank>(g));
      forest.routes.AddRoute(1, std::vector{root, kGpus + g});
    }
  }
  forest.routes.Index(kGpus);
  plan.forests.push_back(std::move(forest));
  plan.phases.push_back(std::move(phase));
  return plan;
}

// The same trees with other routes.
void SetRoutes(TreeSchedule& plan,
               const std::function<std::vector<std::int32_t>(int, int)>& hops_of,
               std::int64_t count = 1) {
  RoutingTable routes;
  for (int from = 0; from < kGpus; ++from) {
    for (int to = 0; to < kGpus; ++to) {
      if (from == to) continue;
      const std::vector<std::int32_t> hops = hops_of(from, to);
      routes.AddArc(static_cast<Rank>(from), static_cast<Rank>(to));
      if (!hops.empty()) routes.AddRoute(count, hops);
    }
  }
  routes.Index(kGpus);
  plan.forests[0].routes = std::move(routes);
}

std::vector<std::int32_t> Direct(int from, int to) { return {from, kGpus + to}; }

std::string ViolationOf(const Topology& topology, const TreeSchedule& plan) {
  const auto found = VerifySchedule(topology, plan);
  const auto by_three = VerifySchedule(topology, plan, {}, 3);
  EXPECT_EQ(found ? "" : found.error().message, by_three ? "" : by_three.error().message);
  return found ? "" : found.error().message;
}

TEST(VerifySchedule, AcceptsASoundScheduleAndMeasuresIt) {
  const auto found = VerifySchedule(Box(), StarPlan());
  ASSERT_TRUE(found.has_value()) << found.error().message;
  EXPECT_EQ(found->heights.max, 1);
  EXPECT_EQ(found->heights.mean, 1.0);
  EXPECT_EQ(found->edges, 56);
  ASSERT_EQ(found->loads.size(), 1U);
  for (const auto& load : found->loads[0]) {
    EXPECT_EQ(load.trees, 7);
    EXPECT_EQ(load.capacity_bps, 2'400'000'000'000);
  }
}

TEST(VerifySchedule, WalksReversedPhasesFromChildToParent) {
  TreeSchedule plan = StarPlan();
  plan.collective = Collective::kReduceScatter;
  plan.phases[0].reversed = true;
  EXPECT_THAT(ViolationOf(Box(), plan), HasSubstr("is broken"));
  for (Channel& channel : plan.phases[0].channels) std::swap(channel.from, channel.to);
  EXPECT_EQ(ViolationOf(Box(), plan), "");
  // Allreduce: both phases, in this order.
  plan.phases.push_back(StarPlan().phases[0]);
  EXPECT_EQ(ViolationOf(Box(), plan), "the phases are not those of reduce-scatter");
  plan.collective = Collective::kAllreduce;
  EXPECT_EQ(ViolationOf(Box(), plan), "");
  std::swap(plan.phases[0], plan.phases[1]);
  EXPECT_EQ(ViolationOf(Box(), plan), "the phases are not those of allreduce");
}

struct Damage {
  std::string name;
  std::function<void(TreeSchedule&)> apply;
  std::string found;
};

void ExpectFound(const std::vector<Damage>& damages) {
  const Topology topology = Box();
  for (const Damage& damage : damages) {
    TreeSchedule plan = StarPlan();
    damage.apply(plan);
    EXPECT_THAT(ViolationOf(topology, plan), HasSubstr(damage.found)) << damage.name;
  }
}

TEST(VerifySchedule, FindsDamageToTrees) {
  ExpectFound({
      {"circle", [](TreeSchedule& p) { p.forests[0].parents[1] = 2, p.forests[0].parents[2] = 1; },
       "tree class 0 of root box0/gpu0: box0/gpu1 is not reached from the root"},
      {"itself", [](TreeSchedule& p) { p.forests[0].parents[3] = 3; },
       "box0/gpu3 is not reached from the root"},
      {"second root", [](TreeSchedule& p) { p.forests[0].parents[5] = kNoRank; },
       "gpu5 has no parent"},
      {"parent out of range", [](TreeSchedule& p) { p.forests[0].parents[5] = 8; },
       "gpu5 has no parent"},
      {"parent of the root", [](TreeSchedule& p) { p.forests[0].parents[0] = 1; },
       "is the root but has a parent"},
      {"other root", [](TreeSchedule& p) { p.forests[0].classes[0].root = 1; },
       "box0/gpu0 is the root of 0 trees, not of 1"},
      {"root out of range", [](TreeSchedule& p) { p.forests[0].classes[0].root = 9; },
       "is not a rank"},
      {"no trees", [](TreeSchedule& p) { p.forests[0].classes[0].count = 0; }, "0 trees of root"},
      {"one tree more", [](TreeSchedule& p) { p.forests[0].classes[7].count = 2; },
       "box0/gpu7 is the root of 2 trees, not of 1"},
      {"one class less",
       [](TreeSchedule& p) { p.forests[0].classes.pop_back(), p.forests[0].parents.resize(56); },
       "box0/gpu7 is the root of 0 trees"},
      {"short parents", [](TreeSchedule& p) { p.forests[0].parents.pop_back(); }, "63 parents"},
  });
}

TEST(VerifySchedule, FindsDamageToRanksAndPhases) {
  ExpectFound({
      {"weight", [](TreeSchedule& p) { p.weights[2] = 3; },
       "gpu2 is the root of 1 trees, not of 3"},
      {"weights missing", [](TreeSchedule& p) { p.weights.clear(); }, "0 weights for 8 ranks"},
      {"rank twice", [](TreeSchedule& p) { p.ranks[1] = p.ranks[0]; },
       "box0/gpu0 is listed as a rank twice"},
      {"rank no compute", [](TreeSchedule& p) { p.ranks[1] = Node(kSwitch); },
       "which is not a COMPUTE node"},
      {"rank unknown", [](TreeSchedule& p) { p.ranks[1] = Node(99); }, "does not have"},
      {"no ranks", [](TreeSchedule& p) { p.ranks.clear(); }, "the schedule has 0 ranks"},
      {"no phase", [](TreeSchedule& p) { p.phases.clear(); }, "no phase"},
      {"phases of another collective",
       [](TreeSchedule& p) {
         p.phases[0].reversed = true;
         for (Channel& channel : p.phases[0].channels) std::swap(channel.from, channel.to);
       },
       "the phases are not those of allgather"},
      {"another collective", [](TreeSchedule& p) { p.collective = Collective::kReduceScatter; },
       "the phases are not those of reduce-scatter"},
      {"a root for each", [](TreeSchedule& p) { p.collective = Collective::kBroadcast; },
       "broadcast takes one rank with a weight of 1"},
      {"weight below nothing", [](TreeSchedule& p) { p.weights[2] = -1; }, "a weight is -1"},
      {"no weights", [](TreeSchedule& p) { p.weights.assign(kGpus, 0); }, "no rank has a weight"},
      {"no such forest", [](TreeSchedule& p) { p.phases[0].forest = 1; }, "has no forest"},
      {"k", [](TreeSchedule& p) { p.trees_per_weight = 0; }, "k is below 1"},
      {"zero rate", [](TreeSchedule& p) { p.tree_gbps = Rational(); }, "a rate is zero"},
  });
}

TEST(VerifySchedule, FindsDamageToRoutesAndChannels) {
  ExpectFound({
      {"route missing",
       [](TreeSchedule& p) {
         SetRoutes(p, [](int from, int to) {
           return from == 2 && to == 3 ? std::vector<std::int32_t>{} : Direct(from, to);
         });
       },
       "1 trees use the edge box0/gpu2 to box0/gpu3, which has routes for 0"},
      {"route for none", [](TreeSchedule& p) { SetRoutes(p, Direct, 0); }, "carries 0 trees"},
      {"arcs missing",
       [](TreeSchedule& p) {
         p.forests[0].routes = RoutingTable();
         p.forests[0].routes.Index(kGpus);
       },
       "a tree uses the edge box0/gpu1 to box0/gpu0, which has no route"},
      {"route to the wrong place",
       [](TreeSchedule& p) { SetRoutes(p, [](int from, int to) { return Direct(from, to ^ 1); }); },
       "ends at"},
      {"route from the wrong place",
       [](TreeSchedule& p) { SetRoutes(p, [](int from, int to) { return Direct(from ^ 1, to); }); },
       "the route from box0/gpu1 to box0/gpu0 is broken at box0/gpu1"},
      {"route that stops",
       [](TreeSchedule& p) {
         SetRoutes(p, [](int from, int) { return std::vector<std::int32_t>{from}; });
       },
       "ends at box0/nvswitch"},
      {"unknown hop",
       [](TreeSchedule& p) { SetRoutes(p, [](int from, int) {
                               return std::vector{from, 16};
                             }); },
       "has a hop that does not exist"},
      {"negative hop",
       [](TreeSchedule& p) {
         SetRoutes(p, [](int, int to) { return std::vector{-1, kGpus + to}; });
       },
       "has a hop that does not exist"},
      {"through a compute node",
       [](TreeSchedule& p) {
         SetRoutes(p, [](int from, int to) {
           const int other = from == 6 || to == 6 ? 7 : 6;
           return std::vector{from, kGpus + other, other, kGpus + to};
         });
       },
       "passes a compute node"},
      {"channel without link", [](TreeSchedule& p) { p.phases[0].channels[0].to = Node(1); },
       "a path goes from box0/gpu0 to box0/gpu1, where no link is UP"},
      {"channel of nothing", [](TreeSchedule& p) { p.phases[0].channels[0].to = Node(100); },
       "unknown node"},
      {"channel twice",
       [](TreeSchedule& p) { p.phases[0].channels.push_back(p.phases[0].channels.front()); },
       "is listed as two channels"},
  });
}

TEST(VerifySchedule, FindsDamageToRatesAndBounds) {
  ExpectFound({
      {"overload",
       [](TreeSchedule& p) { p.forests[0].parents[8 + 2] = 0, SetRoutes(p, Direct, 2); },
       "box0/gpu0 to box0/nvswitch carries 8 trees of 2400/7 Gbit/s each"},
      {"rate too high",
       [](TreeSchedule& p) {
         p.tree_gbps = Rational(2'401, 7), p.inverse_rate = Rational(7, 2'401);
       },
       "carries 7 trees"},
      {"slower than said",
       [](TreeSchedule& p) {
         p.tree_gbps = Rational(2'000, 7), p.inverse_rate = Rational(7, 2'000);
       },
       "the claimed inverse rate is 7/2000, but the loads give 7/2400"},
      {"rates that do not fit", [](TreeSchedule& p) { p.inverse_rate = Rational(7, 2'500); },
       "does not match 1 trees"},
      {"bound above", [](TreeSchedule& p) { p.bound_inverse_rate = Rational(7, 2'399); },
       "is below the bound"},
      {"bound below", [](TreeSchedule& p) { p.bound_inverse_rate = Rational(7, 2'401); },
       "the named cut gives a bound of 7/2400, not 1/343"},
      {"other cut", [](TreeSchedule& p) { p.cut = {Node(0)}; },
       "the named cut gives a bound of 1/2400"},
      {"cut of all", [](TreeSchedule& p) { p.cut.push_back(Node(0)); }, "separates no rank"},
      {"cut of nothing", [](TreeSchedule& p) { p.cut = {Node(50)}; }, "unknown node"},
      {"exceeds 63 bits",
       [](TreeSchedule& p) {
         for (TreeClass& tree : p.forests[0].classes) tree.count = std::int64_t{1} << 61;
         p.trees_per_weight = std::int64_t{1} << 61;
       },
       "exceeds 63 bits"},
      {"exceeds 127 bits", [](TreeSchedule& p) { p.tree_gbps = Rational(Int128{1} << 120, 7); },
       "exceeds 127 bits"},
  });
}

TEST(VerifySchedule, CountsOnlyLinksThatAreUpAndWhatIsLeftOfThem) {
  Topology topology = Box();
  topology.SetLinkState(fabric::LinkId(3), fabric::LinkState::kDrained);
  EXPECT_THAT(ViolationOf(topology, StarPlan()), HasSubstr("where no link is UP"));

  std::vector<BitsPerSecond> available(16, BitsPerSecond{2'400'000'000'000});
  available[9].value -= 1;
  const auto found = VerifySchedule(Box(), StarPlan(), available);
  ASSERT_FALSE(found.has_value());
  EXPECT_THAT(found.error().message,
              HasSubstr("box0/nvswitch to box0/gpu4 carries 7 trees of 2400/7 Gbit/s each, more "
                        "than its 2399.999999999 Gbit/s"));
}

TEST(VerifySchedule, RefusesPathsOverComputeNodesThatAreNoRanks) {
  TreeSchedule plan = StarPlan();
  plan.ranks.pop_back();
  plan.weights.pop_back();
  plan.forests[0].rank_count = kGpus - 1;
  plan.forests[0].classes.pop_back();
  std::vector<Rank> parents;
  for (int root = 0; root < kGpus - 1; ++root) {
    for (int g = 0; g < kGpus - 1; ++g) {
      parents.push_back(g == root ? kNoRank : static_cast<Rank>(root));
    }
  }
  plan.forests[0].parents = parents;
  SetRoutes(plan, [](int from, int to) {
    return from == 7 || to == 7 ? std::vector<std::int32_t>{} : Direct(from, to);
  });
  EXPECT_THAT(ViolationOf(Box(), plan),
              HasSubstr("a path uses box0/gpu7, a compute node that is not a rank"));
}

}  // namespace
}  // namespace espalier::forest
