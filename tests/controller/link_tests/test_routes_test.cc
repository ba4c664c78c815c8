#include "controller/link_tests/trains/test_routes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "common/base/metrics.h"
#include "common/fabric/builders.h"

namespace espalier::controller {
namespace {

using namespace std::chrono_literals;

class Routes : public testing::Test {
 protected:
  explicit Routes(const fabric::LeafSpineOptions& shape = {})
      : state_(*fabric::Topology::Build(*fabric::BuildLeafSpine(shape))) {}
  fabric::NodeId Leaf(fabric::NodeId nic) const { return state_.paths.FindAttachment(nic)->leaf; }
  void Learn(std::uint32_t route, std::uint16_t port) {
    const std::uint32_t path = route - routes_.PairOf(route).first_route;
    state_.path_map.Observe(routes_.KeyOf(route, wire::kProtocolUdp), port,
                            fabric::PathIndex(static_cast<std::int32_t>(path)));
  }

  State state_;
  Metrics metrics_;
  PathLearner learner_{state_.topology, state_.paths, state_.path_map, {}, metrics_};
  TestRoutes routes_{state_, learner_, false};
};

TEST_F(Routes, GoBothWaysBetweenHostsOfAllLeavesOfASmallFabric) {
  std::map<std::pair<fabric::NodeId, fabric::NodeId>, int> leaves;
  std::set<std::pair<fabric::NodeId, fabric::NodeId>> pairs;
  for (const TestPair& pair : routes_.pairs()) {
    ++leaves[{Leaf(pair.source), Leaf(pair.destination)}];
    EXPECT_TRUE(pairs.emplace(pair.source, pair.destination).second);
    EXPECT_EQ(pair.route_count, 4U);
  }
  EXPECT_EQ(leaves.size(), 12U);
  for (const auto& [source, destination] : pairs) {
    EXPECT_TRUE(pairs.contains({destination, source}));
    EXPECT_NE(Leaf(source), Leaf(destination));
  }
}

TEST_F(Routes, EachLinkBetweenSwitchesIsCrossedByRoutesOfSeveralHosts) {
  for (std::size_t i = 0; i < 2 * state_.topology.links().size(); ++i) {
    const auto link = fabric::DirectedLink::FromIndex(i);
    if (!state_.topology.IsSwitchToSwitch(link.link)) continue;
    std::set<fabric::NodeId> sources;
    std::set<fabric::NodeId> destinations;
    for (const std::uint32_t route : routes_.Over(link)) {
      sources.insert(routes_.PairOf(route).source);
      destinations.insert(routes_.PairOf(route).destination);
      EXPECT_THAT(routes_.HopsOf(route), testing::Contains(link));
    }
    EXPECT_GE(sources.size(), 4U);
    EXPECT_GE(destinations.size(), 4U);
  }
}

TEST_F(Routes, PortsAreReadOnceTheyAreKnown) {
  const auto ready = [](fabric::NodeId) { return true; };
  EXPECT_TRUE(routes_.Refresh(TimePoint{1h}, ready)) << "unknown ports are learned";
  EXPECT_FALSE(routes_.PortOf(0, wire::kProtocolUdp));
  Learn(0, 50'017);
  Learn(1, 50'018);
  for (int i = 0; i < 4; ++i) routes_.Refresh(TimePoint{1h} + 1s, ready);
  EXPECT_EQ(routes_.PortOf(0, wire::kProtocolUdp), 50'017);
  EXPECT_EQ(routes_.PortOf(0, wire::kProtocolTcp), 50'017) << "the hash ignores the protocol";
  EXPECT_EQ(routes_.PortOf(1, wire::kProtocolUdp), 50'018);
  EXPECT_FALSE(routes_.PortOf(2, wire::kProtocolUdp));
  EXPECT_THAT(routes_.RoutesOf(routes_.KeyOf(0, wire::kProtocolUdp)),
              testing::ElementsAre(0, 1, 2, 3));
}

TEST_F(Routes, NothingIsAskedForHostsThatAreNotReady) {
  EXPECT_FALSE(routes_.Refresh(TimePoint{1h}, [](fabric::NodeId) { return false; }));
}

TEST_F(Routes, LinksAreInSeriesOnlyIfAllRoutesCrossBoth) {
  const auto hops = routes_.HopsOf(0);
  EXPECT_FALSE(routes_.AreSeries(hops[0], hops[1]));
  EXPECT_TRUE(routes_.AreSeries(hops[0], hops[0]));
  // If the other links of the spine are out of use, no route tells these two apart.
  const fabric::NodeId spine = state_.topology.To(hops[0]);
  EXPECT_TRUE(routes_.AreSeries(hops[0], hops[1], [&](fabric::LinkId id) {
    const fabric::Link& link = state_.topology.link(id);
    return (link.a == spine || link.b == spine) && id != hops[0].link && id != hops[1].link;
  }));
}

class TwoLeafRoutes : public Routes {
 protected:
  TwoLeafRoutes() : Routes({.spines = 4, .leaves = 2, .hosts_per_leaf = 2}) {}
};

TEST_F(TwoLeafRoutes, HaveLinksInSeries) {
  const auto hops = routes_.HopsOf(0);
  EXPECT_TRUE(routes_.AreSeries(hops[0], hops[1]));
}

class ManyLeaves : public Routes {
 protected:
  ManyLeaves() : Routes({.spines = 4, .leaves = 64, .hosts_per_leaf = 2}) {}
};

TEST_F(ManyLeaves, AHostHasPartnersAtDistancesThatDouble) {
  for (const TestPair& pair : routes_.pairs()) {
    EXPECT_LE(routes_.From(pair.source).size(), 14U);
    EXPECT_GE(routes_.From(pair.source).size(), 11U);
  }
}

class ManySpines : public Routes {
 protected:
  ManySpines() : Routes({.spines = 96, .leaves = 4, .hosts_per_leaf = 4}) {}
};

TEST_F(ManySpines, DifferentPairsTestDifferentOnesOfVeryManyPaths) {
  for (const TestPair& pair : routes_.pairs()) {
    EXPECT_LE(pair.route_count, TestRoutes::kMostRoutesOfPair);
  }
  for (std::size_t i = 0; i < 2 * state_.topology.links().size(); ++i) {
    const auto link = fabric::DirectedLink::FromIndex(i);
    if (state_.topology.IsSwitchToSwitch(link.link)) {
      EXPECT_GE(routes_.Over(link).size(), 2U) << i;
    }
  }
}

}  // namespace
}  // namespace espalier::controller
