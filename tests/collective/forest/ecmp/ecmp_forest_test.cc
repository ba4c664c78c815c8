#include "collective/forest/ecmp/ecmp_forest.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <utility>

#include "collective/forest/planner/planner.h"
#include "common/fabric/accelerator_builders.h"
#include "common/fabric/builders.h"
#include "common/fabric/paths.h"

namespace espalier::forest {
namespace {

using fabric::LinkState;
using fabric::NodeId;
using fabric::NodeKind;
using fabric::Topology;

constexpr Collective kCollectives[] = {Collective::kAllgather, Collective::kReduceScatter,
                                       Collective::kAllreduce, Collective::kBroadcast,
                                       Collective::kReduce};

Topology MakeLeafSpine(int spines, int leaves, int hosts, std::int64_t host_gbps = 100) {
  return *Topology::Build(
      *fabric::BuildLeafSpine({.spines = spines,
                               .leaves = leaves,
                               .hosts_per_leaf = hosts,
                               .host_rate = BitsPerSecond{host_gbps * 1'000'000'000}}));
}

void Fail(Topology& topology, std::string_view link) {
  ASSERT_TRUE(topology.SetLinkState(*topology.FindLink(link), LinkState::kDown)) << link;
}

Result<VerifiedSchedule> Make(const Topology& topology, Collective collective, bool ecmp_only,
                              std::vector<BitsPerSecond> available = {}) {
  ScheduleOptions options{.collective = collective, .ecmp_only = ecmp_only};
  options.problem.available = std::move(available);
  options.max_trees_per_weight = 8;
  if (collective == Collective::kBroadcast || collective == Collective::kReduce) {
    options.root = topology.FindNode("h0");
  }
  return MakeTreeSchedule(topology, options);
}

// Returns the nodes of a route, in the direction of the data.
std::vector<NodeId> NodesOf(const Phase& phase, std::span<const std::int32_t> hops) {
  std::vector<NodeId> nodes;
  for (const std::int32_t hop : hops) {
    const Channel& channel = phase.channels[static_cast<std::size_t>(hop)];
    if (nodes.empty()) nodes.push_back(phase.reversed ? channel.to : channel.from);
    nodes.push_back(phase.reversed ? channel.from : channel.to);
  }
  if (phase.reversed) std::reverse(nodes.begin(), nodes.end());
  return nodes;
}

// The part of a route between the NICs: where it enters and leaves the fabric.
struct Crossing {
  NodeId source;
  NodeId destination;
  std::vector<NodeId> switches;
};
Crossing CrossingOf(const Topology& topology, const std::vector<NodeId>& nodes) {
  Crossing crossing;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const fabric::Node& node = topology.node(nodes[i]);
    if (node.kind != NodeKind::kSwitch || !node.host.empty()) continue;
    if (crossing.switches.empty()) crossing.source = nodes[i - 1];
    crossing.switches.push_back(nodes[i]);
    crossing.destination = nodes[i + 1];
  }
  return crossing;
}

bool IsEcmp(const Topology& topology, fabric::PathTable& paths,
            const std::vector<NodeId>& switches) {
  const auto between = paths.Between(switches.front(), switches.back());
  return std::any_of(between.begin(), between.end(), [&](const fabric::Path& path) {
    if (!fabric::IsUsable(topology, path) || path.hops.size() + 1 != switches.size()) return false;
    for (std::size_t i = 0; i < path.hops.size(); ++i) {
      if (topology.To(path.hops[i]) != switches[i + 1]) return false;
    }
    return true;
  });
}

// Checks that ECMP takes every route and that no rank uses two NICs.
void CheckRoutes(const Topology& topology, const TreeSchedule& plan) {
  fabric::PathTable paths(topology);
  std::map<NodeId, std::set<NodeId>> nics;
  for (const Phase& phase : plan.phases) {
    const RoutingTable& routes = plan.forests[phase.forest].routes;
    for (std::size_t arc = 0; arc < routes.ArcCount(); ++arc) {
      for (const Route& route : routes.Routes(arc)) {
        const auto nodes = NodesOf(phase, routes.Hops(route));
        const Crossing crossing = CrossingOf(topology, nodes);
        if (crossing.switches.empty()) continue;
        EXPECT_TRUE(IsEcmp(topology, paths, crossing.switches))
            << topology.node(nodes.front()).id << " to " << topology.node(nodes.back()).id;
        nics[nodes.front()].insert(crossing.source);
        nics[nodes.back()].insert(crossing.destination);
      }
    }
  }
  for (const auto& [rank, own] : nics) EXPECT_EQ(own.size(), 1U) << topology.node(rank).id;
}

// Leaf 0 has only spine 0 and leaf 1 only spine 1, so that the best forest goes through leaf 2.
Topology MakeDetour(int hosts) {
  Topology topology = MakeLeafSpine(2, 3, hosts);
  Fail(topology, "leaf0--spine1");
  Fail(topology, "leaf1--spine0");
  return topology;
}

TEST(EcmpForest, GoesOverRanksWhereSwitchesWouldTakeNoDetour) {
  const Topology topology = MakeDetour(1);
  for (const Collective collective : kCollectives) {
    SCOPED_TRACE(CollectiveName(collective));
    const auto made = Make(topology, collective, /*ecmp_only=*/true);
    ASSERT_TRUE(made.has_value()) << made.error().message;
    CheckRoutes(topology, made->schedule);
    EXPECT_LE(made->schedule.bound_inverse_rate, made->schedule.inverse_rate);
  }
}

TEST(EcmpForest, IsNearTheBestOneOfAnEvenFabric) {
  for (const auto& [spines, leaves, hosts] :
       {std::tuple(4, 4, 4), std::tuple(2, 2, 2), std::tuple(4, 3, 1), std::tuple(2, 8, 2)}) {
    const Topology topology = MakeLeafSpine(spines, leaves, hosts, 400);
    for (const Collective collective : kCollectives) {
      const auto made = Make(topology, collective, /*ecmp_only=*/true);
      ASSERT_TRUE(made.has_value()) << made.error().message;
      CheckRoutes(topology, made->schedule);
      const double least =
          made->schedule.TotalWeight() == 1 ? 0.65 : 0.95;  // one root: 8 trees in all
      EXPECT_GE(made->schedule.FractionOfBound().ToDouble(), least)
          << spines << "x" << leaves << "x" << hosts << " " << CollectiveName(collective);
    }
  }
}

TEST(EcmpForest, RefusesRanksWithoutAConnection) {
  Topology topology = MakeLeafSpine(2, 2, 1);
  Fail(topology, "leaf0--spine1");
  Fail(topology, "leaf1--spine0");
  const auto made = Make(topology, Collective::kAllgather, /*ecmp_only=*/true);
  ASSERT_FALSE(made.has_value());
  EXPECT_EQ(made.error().code, ErrorCode::kFailedPrecondition);
}

// Two ranks in leaves without a common spine, and no rank between them.
TEST(EcmpForest, IgnoresPathsThatSwitchesWouldNotTake) {
  const Topology topology = MakeDetour(1);
  ScheduleOptions options{.collective = Collective::kAllgather, .ecmp_only = true};
  options.problem.ranks = {*topology.FindNode("h0"), *topology.FindNode("h1")};
  const auto made = MakeTreeSchedule(topology, options);
  ASSERT_FALSE(made.has_value());
  EXPECT_EQ(made.error().code, ErrorCode::kFailedPrecondition);
  EXPECT_NE(made.error().message.find("leads from h0 to h1"), std::string::npos)
      << made.error().message;
}

TEST(EcmpForest, GivesEveryRankOfABoxOneNic) {
  const Topology topology = *Topology::Build(*fabric::BuildRails({.boxes = 3, .rails = 4}));
  const auto made = Make(topology, Collective::kAllreduce, /*ecmp_only=*/true);
  ASSERT_TRUE(made.has_value()) << made.error().message;
  CheckRoutes(topology, made->schedule);
  EXPECT_EQ(made->schedule.FractionOfBound(), Rational(1, 1));
}

TEST(EcmpForest, EarlierTreesAreNotKept) {
  const Topology topology = MakeLeafSpine(2, 2, 1);
  const auto made = Make(topology, Collective::kAllgather, false);
  ASSERT_TRUE(made.has_value());
  ScheduleOptions options{.ecmp_only = true};
  options.previous = PreviousSchedule{&made->schedule, &topology};
  EXPECT_EQ(MakeTreeSchedule(topology, options).error().code, ErrorCode::kInvalidArgument);
}

struct RandomFabric {
  Topology topology;
  std::vector<std::vector<bool>> up;  // by leaf and spine
  int hosts_per_leaf = 0;

  // Whether data reaches all leaves from every leaf, over any ranks in between; symmetric.
  bool IsConnected() const {
    std::vector<bool> reached(up.size(), false);
    std::vector<std::size_t> open{0};
    reached[0] = true;
    while (!open.empty()) {
      const std::size_t at = open.back();
      open.pop_back();
      for (std::size_t to = 0; to < up.size(); ++to) {
        if (reached[to]) continue;
        for (std::size_t s = 0; s < up[to].size(); ++s) {
          if (!up[at][s] || !up[to][s]) continue;
          reached[to] = true;
          open.push_back(to);
          break;
        }
      }
    }
    return std::all_of(reached.begin(), reached.end(), [](bool r) { return r; });
  }
};

// Links have different rates, and many are dead.
RandomFabric MakeRandomFabric(std::mt19937_64& random) {
  const auto draw = [&](int low, int high) {
    return low + static_cast<int>(random() % static_cast<std::uint64_t>(high - low + 1));
  };
  const int spines = draw(2, 4);
  const int leaves = draw(2, 5);
  const int hosts = draw(1, 3);
  auto spec =
      *fabric::BuildLeafSpine({.spines = spines, .leaves = leaves, .hosts_per_leaf = hosts});
  for (fabric::Link& link : spec.links) link.rate = BitsPerSecond{draw(1, 4) * 25'000'000'000};
  RandomFabric made{*Topology::Build(std::move(spec)), {}, hosts};
  const int deaths = draw(0, 60);
  for (int leaf = 0; leaf < leaves; ++leaf) {
    std::vector<bool>& up = made.up.emplace_back();
    for (int spine = 0; spine < spines; ++spine) {
      up.push_back(draw(1, 100) > deaths);
      if (!up.back()) Fail(made.topology, fmt::format("leaf{}--spine{}", leaf, spine));
    }
  }
  return made;
}

class RandomEcmpForest : public testing::TestWithParam<int> {};

TEST_P(RandomEcmpForest, ExistsWhereRanksCanReachEachOtherAndIsNearTheBound) {
  std::mt19937_64 random(static_cast<std::uint64_t>(GetParam()));
  int made_count = 0;
  for (int i = 0; i < 12; ++i) {
    const RandomFabric fabric = MakeRandomFabric(random);
    const Collective collective = kCollectives[random() % std::size(kCollectives)];
    std::vector<BitsPerSecond> available;
    if (random() % 3 == 0) {  // residual capacity
      for (std::size_t d = 0; d < 2 * fabric.topology.links().size(); ++d) {
        const auto link = fabric::DirectedLink::FromIndex(d).link;
        const auto twelfths = static_cast<std::int64_t>(1 + random() % 12);
        available.push_back({fabric.topology.link(link).rate.value / 12 * twelfths});
      }
    }
    SCOPED_TRACE(fmt::format("seed {} fabric {} {}", GetParam(), i, CollectiveName(collective)));
    const auto made = Make(fabric.topology, collective, /*ecmp_only=*/true, available);
    ASSERT_EQ(made.has_value(), fabric.IsConnected())
        << (made.has_value() ? "" : made.error().message);
    if (!made) continue;
    ++made_count;
    CheckRoutes(fabric.topology, made->schedule);
    // The bound of all schedules, including those whose routes no switch would take.
    EXPECT_GE(made->schedule.FractionOfBound().ToDouble(), 0.75);
  }
  EXPECT_GT(made_count, 0);
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomEcmpForest, testing::Range(0, 6));

}  // namespace
}  // namespace espalier::forest
