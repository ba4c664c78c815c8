#include "controller/offline/simulation/assignment_router.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "common/fabric/builders.h"
#include "tests/seeds.h"

namespace espalier::offline {
namespace {

using controller::Assignment;
using controller::Commodity;
using controller::kNoPath;

// Flow 0 goes from leaf 0 to leaf 1 and flow 1 back; flows 2 and 3 stay within leaf 2.
class AssignmentRouterTest : public testing::Test {
 protected:
  AssignmentRouterTest() {
    const auto node = [&](const char* id) { return *topology_.FindNode(id); };
    Job job{.id = "J", .phases = {{}}};
    for (const auto& [a, b] : {std::pair("h0", "h2"), std::pair("h4", "h5")}) {
      job.phases[0].exchanges.push_back(
          {.flows = {{node(a), node(b)}, {node(b), node(a)}}, .round_bytes = 1});
    }
    workload_ = *Workload::Build(topology_, {job});
  }

  fabric::Topology topology_ = *fabric::Topology::Build(
      *fabric::BuildLeafSpine({.spines = 4, .leaves = 3, .hosts_per_leaf = 2}));
  fabric::PathTable paths_{topology_};
  controller::FabricView view_{topology_, paths_};
  std::optional<Workload> workload_;
};

TEST_F(AssignmentRouterTest, DescribesExactlyTheLiveFlows) {
  std::vector<Commodity> seen;
  std::vector<std::uint32_t> flows;
  AssignmentRouter router(*workload_, view_, 3, [&](auto commodities, auto live) {
    seen.assign(commodities.begin(), commodities.end());
    flows.assign(live.begin(), live.end());
    Assignment assignment;
    assignment.Clear(commodities);
    return assignment;
  });
  const std::vector<std::uint32_t> live = {1, 2};
  const auto routes = router.Route(live);
  EXPECT_EQ(flows, live);
  ASSERT_EQ(seen.size(), 2U);
  const auto leaf = [&](const char* id) { return *view_.LeafOf(*topology_.FindNode(id)); };
  EXPECT_EQ(seen[0].source, leaf("leaf1"));
  EXPECT_EQ(seen[0].destination, leaf("leaf0"));
  EXPECT_EQ(seen[0].subflows, 3U);
  // The NICs' links: up at the source, down at the destination.
  const auto up = fabric::DirectedLink::FromIndex(seen[0].source_link);
  const auto down = fabric::DirectedLink::FromIndex(seen[0].destination_link);
  EXPECT_EQ(up.link, workload_->flows()[1].source_attachment.uplink->link);
  EXPECT_EQ(up.forward, workload_->flows()[1].source_attachment.uplink->forward);
  EXPECT_EQ(down.link, workload_->flows()[1].destination_attachment.uplink->link);
  EXPECT_NE(down.forward, workload_->flows()[1].destination_attachment.uplink->forward);
  // Without a path the set is empty; within a leaf the whole flow takes no links.
  ASSERT_EQ(routes.size(), 2U);
  EXPECT_TRUE(routes[0].empty());
  EXPECT_EQ(routes[1], std::vector<PathShare>{PathShare{}});
}

// Whatever paths the subflows take, each path carries as many shares as it has subflows.
TEST_F(AssignmentRouterTest, JoinsTheSubflowsOfAPath) {
  for (const std::uint64_t seed : SeedsToTry(1, 30)) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    const auto subflows = static_cast<std::uint32_t>(1 + random() % 16);
    std::vector<std::int32_t> chosen;
    for (std::uint32_t i = 0; i < subflows; ++i) {
      chosen.push_back(static_cast<std::int32_t>(random() % 4));
    }
    AssignmentRouter router(*workload_, view_, subflows, [&](auto commodities, auto) {
      Assignment assignment;
      assignment.Clear(commodities);
      assignment.paths = chosen;
      return assignment;
    });
    const auto shares = router.Route(std::vector<std::uint32_t>{0}).at(0);
    double sum = 0;
    std::size_t paths = 0;
    for (std::int32_t path = 0; path < 4; ++path) {
      std::vector<std::uint32_t> hops;
      view_.AppendHops(*view_.LeafOf(*topology_.FindNode("leaf0")),
                       *view_.LeafOf(*topology_.FindNode("leaf1")), path, hops);
      const auto found = std::ranges::find(shares, hops, &PathShare::links);
      const auto count = std::ranges::count(chosen, path);
      ASSERT_EQ(found != shares.end(), count > 0) << path;
      if (found == shares.end()) continue;
      EXPECT_NEAR(found->share * subflows, static_cast<double>(count), 1e-9);
      sum += found->share;
      ++paths;
    }
    EXPECT_EQ(shares.size(), paths);
    EXPECT_NEAR(sum, 1, 1e-9);
  }
}

// A flow of which a subflow has no path has none.
TEST_F(AssignmentRouterTest, GivesNoPathIfASubflowHasNone) {
  AssignmentRouter router(*workload_, view_, 2, [&](auto commodities, auto) {
    Assignment assignment;
    assignment.Clear(commodities);
    assignment.paths = {1, kNoPath};
    return assignment;
  });
  EXPECT_TRUE(router.Route(std::vector<std::uint32_t>{0}).at(0).empty());
}

}  // namespace
}  // namespace espalier::offline
