#include "controller/forests/job_forest.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>

#include "collective/program/program_bytes.h"
#include "collective/program/verifier/verifier.h"
#include "common/fabric/accelerator_builders.h"
#include "common/fabric/builders.h"

namespace espalier::controller {
namespace {

using fabric::NodeId;

// Host links are fast, so that the links between switches are the bottleneck.
std::shared_ptr<fabric::Topology> MakeFabric(int spines, int leaves, int hosts) {
  return std::make_shared<fabric::Topology>(*fabric::Topology::Build(
      *fabric::BuildLeafSpine({.spines = spines,
                               .leaves = leaves,
                               .hosts_per_leaf = hosts,
                               .host_rate = BitsPerSecond{800'000'000'000}})));
}

std::vector<NodeId> AllComputeNodes(const fabric::Topology& topology) {
  std::vector<NodeId> nodes;
  for (std::size_t i = 0; i < topology.nodes().size(); ++i) {
    const NodeId id(static_cast<std::int32_t>(i));
    if (topology.node(id).kind == fabric::NodeKind::kCompute) nodes.push_back(id);
  }
  return nodes;
}

ForestRequest MakeRequest(const std::shared_ptr<fabric::Topology>& topology) {
  return {.topology = topology,
          .available = {},
          .name = "job",
          .collective = forest::Collective::kAllreduce,
          .ranks = AllComputeNodes(*topology)};
}

// The chunks over each directed link between switches, by its name.
std::map<std::string, std::int64_t> ChunksByLink(const fabric::Topology& topology,
                                                 const JobForest& forest) {
  fabric::PathTable paths(topology);
  std::map<std::string, std::int64_t> chunks;
  for (const TreeEdge& edge : forest.edges) {
    if (!edge.crossing) continue;
    const auto between = paths.Between(edge.crossing->source_leaf, edge.crossing->destination_leaf);
    for (const auto hop : between[edge.crossing->path.Index()].hops) {
      chunks[topology.DirectionName(hop)] += edge.chunks;
    }
  }
  return chunks;
}

TEST(JobForest, LoadsAllLinksOfAnEvenFabricEquallyAndIsOptimal) {
  const auto topology = MakeFabric(4, 4, 4);
  const auto forest = BuildJobForest(MakeRequest(topology));
  ASSERT_TRUE(forest.has_value()) << forest.error().message;
  EXPECT_DOUBLE_EQ(forest->algbw_gbps, forest->bound_gbps);
  const auto chunks = ChunksByLink(*topology, *forest);
  EXPECT_EQ(chunks.size(), 32U);
  for (const auto& [link, count] : chunks) EXPECT_EQ(count, chunks.begin()->second) << link;
  // The edges use the whole rate of the links: one unit on each, all the time.
  double rate = 0;
  for (const TreeEdge& edge : forest->edges) {
    if (edge.crossing) rate += edge.crossing->rate_gbps;
  }
  const double link_gbps =
      static_cast<double>(topology->link(*topology->FindLink("leaf0--spine0")).rate.value) / 1e9;
  EXPECT_NEAR(rate, 16 * link_gbps, 1e-6 * rate);
}

TEST(JobForest, AvoidsALinkThatIsDown) {
  const auto topology = MakeFabric(4, 4, 2);
  topology->SetLinkState(*topology->FindLink("leaf1--spine2"), fabric::LinkState::kDown);
  const auto forest = BuildJobForest(MakeRequest(topology));
  ASSERT_TRUE(forest.has_value()) << forest.error().message;
  for (const auto& [link, count] : ChunksByLink(*topology, *forest)) {
    EXPECT_FALSE(link.starts_with("leaf1--spine2")) << link;
  }
  EXPECT_FALSE(
      program::Verify(*program::DecodeProgram(forest->program.Whole())).violation.has_value());
}

TEST(JobForest, UsesTheResidualCapacity) {
  const auto topology = MakeFabric(2, 2, 2);
  ForestRequest request = MakeRequest(topology);
  const auto alone = BuildJobForest(request);
  request.available.resize(2 * topology->links().size());
  for (std::size_t i = 0; i < request.available.size(); ++i) {
    const auto link = fabric::DirectedLink::FromIndex(i).link;
    request.available[i] = topology->link(link).rate;
    if (topology->link(link).id == "leaf0--spine0") request.available[i].value /= 2;
  }
  const auto beside = BuildJobForest(request);
  ASSERT_TRUE(alone.has_value() && beside.has_value());
  EXPECT_LT(beside->algbw_gbps, alone->algbw_gbps);
  const auto chunks = ChunksByLink(*topology, *beside);
  const auto count = [&](const std::string& link) { return chunks.at(link); };
  EXPECT_LT(count("leaf0--spine0>spine0"), count("leaf0--spine1>spine1"));
}

TEST(JobForest, OfEveryCollective) {
  const auto topology = MakeFabric(2, 2, 2);
  for (const auto collective : {forest::Collective::kAllgather, forest::Collective::kReduceScatter,
                                forest::Collective::kAllreduce, forest::Collective::kBroadcast,
                                forest::Collective::kReduce}) {
    ForestRequest request = MakeRequest(topology);
    request.collective = collective;
    const auto forest = BuildJobForest(request);
    ASSERT_TRUE(forest.has_value()) << forest.error().message;
    EXPECT_FALSE(
        program::Verify(*program::DecodeProgram(forest->program.Whole())).violation.has_value());
    EXPECT_GT(forest->algbw_gbps, 0);
  }
}

TEST(JobForest, OfBoxesWithANicEach) {
  const auto spec = fabric::BuildLeafSpine({.spines = 2, .leaves = 2, .hosts_per_leaf = 1});
  const auto topology = std::make_shared<fabric::Topology>(*fabric::Topology::Build(*spec));
  ForestRequest request = MakeRequest(topology);
  const auto forest = BuildJobForest(request);
  ASSERT_TRUE(forest.has_value()) << forest.error().message;
  EXPECT_EQ(forest->nics, request.ranks);  // hosts that are their own NICs
}

TEST(JobForest, RanksThatCannotReachEachOtherAreRefused) {
  const auto topology = MakeFabric(1, 2, 1);
  topology->SetLinkState(*topology->FindLink("leaf0--spine0"), fabric::LinkState::kDown);
  const auto forest = BuildJobForest(MakeRequest(topology));
  ASSERT_FALSE(forest.has_value());
  EXPECT_EQ(forest.error().code, ErrorCode::kFailedPrecondition);
}

// By directed link between switches: the rate of the edges on it, relative to its own.
double GreatestUse(const fabric::Topology& topology, const JobForest& forest) {
  fabric::PathTable paths(topology);
  std::map<std::size_t, double> gbps;
  for (const TreeEdge& edge : forest.edges) {
    if (!edge.crossing) continue;
    const auto between = paths.Between(edge.crossing->source_leaf, edge.crossing->destination_leaf);
    const fabric::Path& path = between[edge.crossing->path.Index()];
    EXPECT_TRUE(fabric::IsUsable(topology, path));
    for (const auto hop : path.hops) gbps[hop.Index()] += edge.crossing->rate_gbps;
  }
  double greatest = 0;
  for (const auto& [index, rate] : gbps) {
    const auto link = fabric::DirectedLink::FromIndex(index).link;
    greatest = std::max(greatest, rate * 1e9 / static_cast<double>(topology.link(link).rate.value));
  }
  return greatest;
}

// Leaf 0 has only spine 0 and leaf 1 only spine 1; leaf 2 has both.
TEST(JobForest, RelaysOverRanksIfTheBestForestNeedsADetour) {
  const auto topology = MakeFabric(2, 3, 2);
  topology->SetLinkState(*topology->FindLink("leaf0--spine1"), fabric::LinkState::kDown);
  topology->SetLinkState(*topology->FindLink("leaf1--spine0"), fabric::LinkState::kDown);
  for (const auto collective : {forest::Collective::kAllgather, forest::Collective::kReduceScatter,
                                forest::Collective::kAllreduce, forest::Collective::kBroadcast,
                                forest::Collective::kReduce}) {
    ForestRequest request = MakeRequest(topology);
    request.collective = collective;
    const auto forest = BuildJobForest(request);
    ASSERT_TRUE(forest.has_value()) << forest.error().message;
    EXPECT_LE(GreatestUse(*topology, *forest), 1 + 1e-9);
    for (const TreeEdge& edge : forest->edges) {
      EXPECT_FALSE(edge.from / 2 + edge.to / 2 == 1) << edge.from << " to " << edge.to;
    }
    EXPECT_FALSE(
        program::Verify(*program::DecodeProgram(forest->program.Whole())).violation.has_value());
  }
  // Without leaf 2 there is no relay.
  ForestRequest request = MakeRequest(topology);
  request.ranks.resize(4);
  EXPECT_EQ(BuildJobForest(request).error().code, ErrorCode::kFailedPrecondition);
}

// Boxes of four GPUs and four NICs: the best forest uses all NICs of a box for one GPU.
TEST(JobForest, OfBoxesWhoseRanksGetANicEach) {
  const auto spec = fabric::BuildRails({.boxes = 3, .rails = 4});
  const auto topology = std::make_shared<fabric::Topology>(*fabric::Topology::Build(*spec));
  const auto forest = BuildJobForest(MakeRequest(topology));
  ASSERT_TRUE(forest.has_value()) << forest.error().message;
  EXPECT_EQ(std::set(forest->nics.begin(), forest->nics.end()).size(), 12U);
}

// The NICs of one rank's edges that leave its host.
std::set<std::string> NicsOf(const fabric::Topology& topology, const JobForest& forest,
                             std::int32_t rank) {
  std::set<std::string> nics;
  for (const TreeEdge& edge : forest.edges) {
    if (!edge.leaves_host) continue;
    if (edge.from == rank) nics.insert(topology.node(edge.source_nic).id);
    if (edge.to == rank) nics.insert(topology.node(edge.destination_nic).id);
  }
  return nics;
}

// Four hosts, each with a GPU at two NICs of 100 Gbit/s, which are the bottleneck.
std::shared_ptr<fabric::Topology> MakeTwoRails() {
  fabric::TopologySpec spec =
      *fabric::BuildLeafSpine({.spines = 2,
                               .leaves = 4,
                               .hosts_per_leaf = 2,
                               .host_rate = BitsPerSecond{100'000'000'000},
                               .fabric_rate = BitsPerSecond{400'000'000'000},
                               .rails = 2,
                               .gpus = 1});
  return std::make_shared<fabric::Topology>(*fabric::Topology::Build(std::move(spec)));
}

// One rank on each host of two NICs is twice as fast over both.
TEST(JobForest, OfOneRankForTwoNicsUsesBoth) {
  const auto topology = MakeTwoRails();
  ForestRequest request = MakeRequest(topology);
  for (const auto collective : {forest::Collective::kAllgather, forest::Collective::kReduceScatter,
                                forest::Collective::kAllreduce}) {
    SCOPED_TRACE(forest::CollectiveName(collective));
    request.collective = collective;
    request.one_nic = false;
    const auto both = BuildJobForest(request);
    ASSERT_TRUE(both.has_value()) << both.error().message;
    for (std::int32_t rank = 0; rank < 4; ++rank) {
      EXPECT_EQ(NicsOf(*topology, *both, rank).size(), 2U) << rank;
      EXPECT_TRUE(both->has_choice[static_cast<std::size_t>(rank)]);
    }
    for (const TreeEdge& edge : both->edges) {
      ASSERT_TRUE(edge.leaves_host);
      EXPECT_EQ(topology->node(edge.source_nic).host,
                topology->node(request.ranks[static_cast<std::size_t>(edge.from)]).host);
      EXPECT_EQ(topology->node(edge.destination_nic).host,
                topology->node(request.ranks[static_cast<std::size_t>(edge.to)]).host);
    }
    request.one_nic = true;
    const auto one = BuildJobForest(request);
    ASSERT_TRUE(one.has_value()) << one.error().message;
    for (std::int32_t rank = 0; rank < 4; ++rank) {
      EXPECT_EQ(NicsOf(*topology, *one, rank).size(), 1U) << rank;
    }
    EXPECT_DOUBLE_EQ(both->algbw_gbps, 2 * one->algbw_gbps);
  }
}

TEST(JobForest, LeavesOutANicWithoutLink) {
  const auto topology = MakeTwoRails();
  topology->SetLinkState(*topology->FindLink("h1/nic1--leaf1"), fabric::LinkState::kDown);
  ForestRequest request = MakeRequest(topology);
  ASSERT_EQ(request.ranks.size(), 4U);
  const auto forest = BuildJobForest(request);
  ASSERT_TRUE(forest.has_value()) << forest.error().message;
  EXPECT_EQ(NicsOf(*topology, *forest, 1), std::set<std::string>{"h1/nic0"});
}

class RandomJobForest : public testing::TestWithParam<int> {};

// Links are dead, drained, of different rates and partly used by other flows. A forest exists if
// each leaf can reach the others over leaves that share spines.
TEST_P(RandomJobForest, ExistsIfRanksCanReachEachOther) {
  std::mt19937_64 random(static_cast<std::uint64_t>(GetParam()));
  const auto draw = [&](int low, int high) {
    return low + static_cast<int>(random() % static_cast<std::uint64_t>(high - low + 1));
  };
  int found = 0;
  for (int i = 0; i < 8; ++i) {
    SCOPED_TRACE("seed " + std::to_string(GetParam()) + " fabric " + std::to_string(i));
    const int spines = draw(2, 4);
    const int leaves = draw(2, 4);
    auto spec =
        *fabric::BuildLeafSpine({.spines = spines, .leaves = leaves, .hosts_per_leaf = draw(1, 2)});
    for (fabric::Link& link : spec.links) link.rate = BitsPerSecond{draw(1, 4) * 25'000'000'000};
    const auto topology =
        std::make_shared<fabric::Topology>(*fabric::Topology::Build(std::move(spec)));
    std::vector<std::set<int>> spines_of(static_cast<std::size_t>(leaves));
    for (int leaf = 0; leaf < leaves; ++leaf) {
      for (int spine = 0; spine < spines; ++spine) {
        if (draw(0, 9) >= 4) {
          spines_of[static_cast<std::size_t>(leaf)].insert(spine);
          continue;
        }
        const auto link =
            topology->FindLink("leaf" + std::to_string(leaf) + "--spine" + std::to_string(spine));
        topology->SetLinkState(
            *link, draw(0, 1) == 0 ? fabric::LinkState::kDown : fabric::LinkState::kDrained);
      }
    }
    // Joins the groups of leaves that share a spine, until no more can be joined.
    std::set<int> reached = spines_of[0];
    std::vector<bool> is_in(spines_of.size(), false);
    for (std::size_t round = 0; round < spines_of.size(); ++round) {
      for (std::size_t leaf = 0; leaf < spines_of.size(); ++leaf) {
        const bool joins = leaf == 0 || std::any_of(spines_of[leaf].begin(), spines_of[leaf].end(),
                                                    [&](int s) { return reached.contains(s); });
        if (!joins) continue;
        is_in[leaf] = true;
        reached.insert(spines_of[leaf].begin(), spines_of[leaf].end());
      }
    }
    ForestRequest request = MakeRequest(topology);
    if (draw(0, 1) == 0) request.available.resize(2 * topology->links().size());
    for (std::size_t d = 0; d < request.available.size(); ++d) {
      const auto link = fabric::DirectedLink::FromIndex(d).link;
      request.available[d] = {topology->link(link).rate.value / 12 * draw(1, 12)};
    }
    const auto forest = BuildJobForest(request);
    const bool is_connected = std::find(is_in.begin(), is_in.end(), false) == is_in.end();
    ASSERT_EQ(forest.has_value(), is_connected) << (forest ? "" : forest.error().message);
    if (!forest) continue;
    ++found;
    EXPECT_LE(GreatestUse(*topology, *forest), 1 + 1e-9);
    EXPECT_GE(forest->algbw_gbps, 0.55 * forest->bound_gbps);
  }
  EXPECT_GT(found, 0);
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomJobForest, testing::Range(0, 6));

// A message to an agent has 4 MiB. A long name is the cheapest way to a long program.
TEST(JobForest, AProgramThatIsTooLongForAMessageIsRefused) {
  ForestRequest request = MakeRequest(MakeFabric(1, 2, 1));
  request.name.assign(3'900'000, 'x');
  ASSERT_TRUE(BuildJobForest(request));
  request.name.assign(3'932'160, 'x');
  const auto forest = BuildJobForest(request);
  ASSERT_FALSE(forest.has_value());
  EXPECT_EQ(forest.error().code, ErrorCode::kResourceExhausted);
  EXPECT_NE(forest.error().message.find("more than the 3932160 that fit"), std::string::npos)
      << forest.error().message;
}

TEST(JobForest, CanBeCancelled) {
  const auto topology = MakeFabric(4, 4, 4);
  const auto forest = BuildJobForest(MakeRequest(topology), {.cancelled = [] { return true; }});
  ASSERT_FALSE(forest.has_value());
  EXPECT_EQ(forest.error().code, ErrorCode::kUnavailable);
}

}  // namespace
}  // namespace espalier::controller
