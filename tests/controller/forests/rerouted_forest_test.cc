// Tests forests whose broken connections take other paths.
#include "controller/forests/rerouted_forest.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>

#include "common/fabric/builders.h"
#include "tests/seeds.h"

namespace espalier::controller {
namespace {

using fabric::LinkState;
using TopologyPtr = std::shared_ptr<fabric::Topology>;

// Host links are fast, so that the links between switches are the bottleneck.
TopologyPtr MakeLeafSpine(int spines, int leaves, int hosts) {
  return std::make_shared<fabric::Topology>(*fabric::Topology::Build(
      *fabric::BuildLeafSpine({.spines = spines,
                               .leaves = leaves,
                               .hosts_per_leaf = hosts,
                               .host_rate = BitsPerSecond{800'000'000'000}})));
}

ForestRequest RequestOn(const TopologyPtr& topology) {
  ForestRequest request{.topology = topology, .available = {}, .name = "job", .ranks = {}};
  for (std::size_t i = 0; i < topology->nodes().size(); ++i) {
    const fabric::NodeId id(static_cast<std::int32_t>(i));
    if (topology->node(id).kind == fabric::NodeKind::kCompute) request.ranks.push_back(id);
  }
  return request;
}

// The request with the forest for it as the previous one, before anything fails.
ForestRequest RequestAfter(ForestRequest request) {
  auto forest = BuildJobForest(request);
  EXPECT_TRUE(forest.has_value()) << forest.error().message;
  request.previous = std::make_shared<const JobForest>(std::move(*forest));
  return request;
}

std::optional<JobForest> RerouteOn(const ForestRequest& request) {
  return RerouteForest(request, fabric::PathTable(*request.topology));
}

void FailLink(const TopologyPtr& topology, const std::string& link,
              LinkState state = LinkState::kDown) {
  topology->SetLinkState(*topology->FindLink(link), state);
}

// By name of a directed link between switches: the chunks on it.
std::map<std::string, std::int64_t> ChunksOnLinks(const fabric::Topology& topology,
                                                  const JobForest& forest) {
  const fabric::PathTable paths(topology);
  std::map<std::string, std::int64_t> chunks;
  for (const TreeEdge& edge : forest.edges) {
    if (!edge.crossing) continue;
    const auto between = paths.Between(edge.crossing->source_leaf, edge.crossing->destination_leaf);
    const fabric::Path& path = between[edge.crossing->path.Index()];
    EXPECT_TRUE(fabric::IsUsable(topology, path));
    for (const auto hop : path.hops) chunks[topology.DirectionName(hop)] += edge.chunks;
  }
  return chunks;
}

// Three links take over what the fourth carried, in equal shares: no forest is faster.
TEST(ReroutedForest, MovesOnlyBrokenConnectionsAndKeepsTheProgram) {
  const auto topology = MakeLeafSpine(4, 4, 4);
  const ForestRequest request = RequestAfter(RequestOn(topology));
  const JobForest& before = *request.previous;
  const auto loads_before = ChunksOnLinks(*topology, before);
  FailLink(topology, "leaf1--spine2");
  const auto after = RerouteOn(request);
  ASSERT_TRUE(after.has_value());
  EXPECT_EQ(after->program, before.program) << "the same one, not a copy";
  ASSERT_EQ(after->edges.size(), before.edges.size());
  const fabric::PathTable paths(*topology);
  std::size_t moved = 0;
  for (std::size_t i = 0; i < before.edges.size(); ++i) {
    const TreeEdge& old_edge = before.edges[i];
    const TreeEdge& edge = after->edges[i];
    EXPECT_EQ(edge.crossing.has_value(), old_edge.crossing.has_value());
    if (!edge.crossing) continue;
    const auto between =
        paths.Between(old_edge.crossing->source_leaf, old_edge.crossing->destination_leaf);
    const bool is_broken = !fabric::IsUsable(*topology, between[old_edge.crossing->path.Index()]);
    EXPECT_EQ(edge.crossing->path != old_edge.crossing->path, is_broken);
    moved += is_broken ? 1 : 0;
  }
  EXPECT_GT(moved, 0U);
  auto loads = ChunksOnLinks(*topology, *after);
  for (const char* const spine : {"0", "1", "3"}) {
    for (const char* const end : {">leaf1", ">spine"}) {
      const std::string link = std::string("leaf1--spine") + spine;
      const std::string name = link + (end[1] == 's' ? std::string(end) + spine : end);
      EXPECT_EQ(3 * loads.at(name), 4 * loads_before.at(name)) << name;
    }
  }
  EXPECT_DOUBLE_EQ(after->algbw_gbps, before.algbw_gbps * 3 / 4);

  const auto best = BuildJobForest(request);
  ASSERT_TRUE(best.has_value());
  EXPECT_EQ(best->program, before.program);
  EXPECT_TRUE(best->HasConnectionsOf(*after));
  EXPECT_DOUBLE_EQ(best->algbw_gbps, best->bound_gbps);
}

TEST(ReroutedForest, StaysAsItIsIfNothingBreaks) {
  const auto topology = MakeLeafSpine(4, 3, 4);
  ForestRequest request = RequestAfter(RequestOn(topology));
  EXPECT_TRUE(*RerouteOn(request) == *request.previous);
  FailLink(topology, "leaf1--spine2", LinkState::kDrained);
  request.previous = std::make_shared<const JobForest>(*RerouteOn(request));
  EXPECT_TRUE(*RerouteOn(request) == *request.previous) << "nor twice";
}

// Eight chunks for three links: one of them gets three where 8/3 would do.
TEST(ReroutedForest, GivesWayToAFasterForest) {
  const auto topology = MakeLeafSpine(4, 3, 4);
  ForestRequest request = RequestAfter(RequestOn(topology));
  FailLink(topology, "leaf1--spine2");
  const auto rerouted = RerouteOn(request);
  ASSERT_TRUE(rerouted.has_value());
  const auto best = BuildJobForest(request);
  ASSERT_TRUE(best.has_value());
  EXPECT_GT(best->algbw_gbps, rerouted->algbw_gbps);
  EXPECT_NE(best->program, request.previous->program);
  request.previous = nullptr;
  EXPECT_TRUE(*BuildJobForest(request) == *best) << "as if there had been none";
}

// When links have come back, an equally fast forest that uses them is preferred.
TEST(ReroutedForest, GivesWayToAnEquallyFastForestOnRequest) {
  const auto topology = MakeLeafSpine(4, 4, 4);
  ForestRequest request = RequestAfter(RequestOn(topology));
  FailLink(topology, "leaf1--spine2");
  EXPECT_EQ(BuildJobForest(request)->program, request.previous->program);
  request.prefers_new = true;
  const auto fresh = BuildJobForest(request);
  ASSERT_TRUE(fresh.has_value());
  EXPECT_NE(fresh->program, request.previous->program);
  EXPECT_DOUBLE_EQ(fresh->algbw_gbps, fresh->bound_gbps);
}

TEST(ReroutedForest, AvoidsLinksThatOthersUse) {
  const auto topology = MakeLeafSpine(4, 4, 4);
  ForestRequest request = RequestAfter(RequestOn(topology));
  FailLink(topology, "leaf1--spine2");
  request.available.resize(2 * topology->links().size());
  for (std::size_t i = 0; i < request.available.size(); ++i) {
    const fabric::Link& link = topology->link(fabric::DirectedLink::FromIndex(i).link);
    request.available[i] = link.rate;
    if (link.id == "leaf1--spine0") request.available[i].value /= 4;
  }
  const auto before = ChunksOnLinks(*MakeLeafSpine(4, 4, 4), *request.previous);
  const auto after = RerouteOn(request);
  ASSERT_TRUE(after.has_value());
  const auto loads = ChunksOnLinks(*topology, *after);
  EXPECT_EQ(loads.at("leaf1--spine0>spine0"), before.at("leaf1--spine0>spine0"));
  EXPECT_GT(loads.at("leaf1--spine1>spine1"), before.at("leaf1--spine1>spine1"));
}

TEST(ReroutedForest, DoesNotExistWithoutAnotherPath) {
  const auto topology = MakeLeafSpine(2, 2, 1);
  const ForestRequest request = RequestAfter(RequestOn(topology));
  FailLink(topology, "leaf0--spine0");
  EXPECT_TRUE(RerouteOn(request).has_value());
  FailLink(topology, "leaf1--spine1");
  EXPECT_FALSE(RerouteOn(request).has_value());
  EXPECT_EQ(BuildJobForest(request).error().code, ErrorCode::kFailedPrecondition);
}

// A forest of ranks with two NICs each does not serve an agent that has come to support only one.
TEST(ReroutedForest, DoesNotExistForNeedsThatItDoesNotMeet) {
  const auto topology = std::make_shared<fabric::Topology>(*fabric::Topology::Build(
      *fabric::BuildLeafSpine({.spines = 2,
                               .leaves = 4,
                               .hosts_per_leaf = 2,
                               .host_rate = BitsPerSecond{100'000'000'000},
                               .fabric_rate = BitsPerSecond{400'000'000'000},
                               .rails = 2,
                               .gpus = 1})));
  ForestRequest request = RequestAfter(RequestOn(topology));
  EXPECT_TRUE(RerouteOn(request).has_value());
  request.one_nic = true;
  EXPECT_FALSE(RerouteOn(request).has_value());
  const auto other = BuildJobForest(request);
  ASSERT_TRUE(other.has_value()) << other.error().message;
  EXPECT_NE(other->program, request.previous->program);
  request.one_nic = false;
  FailLink(topology, "h1/nic0--leaf0");
  EXPECT_FALSE(RerouteOn(request).has_value()) << "its rank has another NIC";
}

class RandomReroutedForest : public testing::TestWithParam<std::uint64_t> {};

// Links of different rates, partly used by others, fail one after another.
TEST_P(RandomReroutedForest, KeepsWithinCapacityAndIsReplacedByAFasterOne) {
  std::mt19937_64 random(GetParam());
  const auto draw = [&](int low, int high) {
    return low + static_cast<int>(random() % static_cast<std::uint64_t>(high - low + 1));
  };
  auto spec = *fabric::BuildLeafSpine({.spines = draw(2, 4),
                                       .leaves = draw(2, 4),
                                       .hosts_per_leaf = draw(1, 3),
                                       .host_rate = BitsPerSecond{400'000'000'000}});
  for (fabric::Link& link : spec.links) {
    if (link.id.starts_with("leaf")) link.rate = BitsPerSecond{draw(1, 4) * 25'000'000'000};
  }
  const auto topology = std::make_shared<fabric::Topology>(*fabric::Topology::Build(spec));
  ForestRequest request = RequestAfter(RequestOn(topology));
  for (int failures = 0; failures < 3; ++failures) {
    const fabric::LinkId link(draw(0, static_cast<int>(topology->links().size()) - 1));
    if (!topology->link(link).id.starts_with("leaf")) continue;
    topology->SetLinkState(link, LinkState::kDown);
    request.available.clear();
    for (const fabric::Link& each : topology->links()) {
      for (int direction = 0; direction < 2; ++direction) {
        request.available.push_back({each.rate.value / 12 * draw(6, 12)});
      }
    }
    const auto best = BuildJobForest(request);
    const auto rerouted = RerouteOn(request);
    if (!best) continue;
    if (!rerouted) break;
    std::map<std::size_t, double> gbps;
    const fabric::PathTable paths(*topology);
    for (const TreeEdge& edge : rerouted->edges) {
      if (!edge.crossing) continue;
      const auto between =
          paths.Between(edge.crossing->source_leaf, edge.crossing->destination_leaf);
      for (const auto hop : between[edge.crossing->path.Index()].hops) {
        EXPECT_EQ(topology->link(hop.link).state, LinkState::kUp);
        gbps[hop.Index()] += edge.crossing->rate_gbps;
      }
    }
    for (const auto& [directed_link, rate] : gbps) {
      const auto most = static_cast<double>(request.available[directed_link].value) / 1e9;
      EXPECT_LE(rate, most * (1 + 1e-6))
          << topology->DirectionName(fabric::DirectedLink::FromIndex(directed_link));
    }
    ForestRequest alone = request;
    alone.previous = nullptr;
    EXPECT_GE(best->algbw_gbps, BuildJobForest(alone)->algbw_gbps * (1 - 1e-9));
    EXPECT_GE(best->algbw_gbps, rerouted->algbw_gbps * (1 - 1e-9));
    request.previous = std::make_shared<const JobForest>(*best);
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomReroutedForest, testing::ValuesIn(SeedsToTry(0, 30)));

}  // namespace
}  // namespace espalier::controller
