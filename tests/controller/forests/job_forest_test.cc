#include "controller/forests/job_forest.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "collective/program/program_bytes.h"
#include "collective/program/verifier/verifier.h"
#include "common/fabric/accelerator_builders.h"
#include "common/fabric/builders.h"

namespace espalier::controller {
namespace {

using fabric::NodeId;

// Hosts are fast, so that what is between the leaves decides.
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

// Chunks over each direction of each link between switches, by its name.
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

TEST(JobForest, LoadsEveryLinkOfAnEvenFabricAlikeAndIsOptimal) {
  const auto topology = MakeFabric(4, 4, 4);
  const auto forest = BuildJobForest(MakeRequest(topology));
  ASSERT_TRUE(forest.has_value()) << forest.error().message;
  EXPECT_DOUBLE_EQ(forest->algbw_gbps, forest->bound_gbps);
  const auto chunks = ChunksByLink(*topology, *forest);
  EXPECT_EQ(chunks.size(), 32U);
  for (const auto& [link, count] : chunks) EXPECT_EQ(count, chunks.begin()->second) << link;
  // As much rate as the links have: a unit link each, all the time.
  double rate = 0;
  for (const TreeEdge& edge : forest->edges) {
    if (edge.crossing) rate += edge.crossing->rate_gbps;
  }
  const double link_gbps =
      static_cast<double>(topology->link(*topology->FindLink("leaf0--spine0")).rate.value) / 1e9;
  EXPECT_NEAR(rate, 16 * link_gbps, 1e-6 * rate);
}

TEST(JobForest, KeepsOffALinkThatIsDown) {
  const auto topology = MakeFabric(4, 4, 2);
  topology->SetLinkState(*topology->FindLink("leaf1--spine2"), fabric::LinkState::kDown);
  const auto forest = BuildJobForest(MakeRequest(topology));
  ASSERT_TRUE(forest.has_value()) << forest.error().message;
  for (const auto& [link, count] : ChunksByLink(*topology, *forest)) {
    EXPECT_FALSE(link.starts_with("leaf1--spine2")) << link;
  }
  EXPECT_FALSE(program::Verify(forest->program).violation.has_value());
}

TEST(JobForest, UsesWhatOthersLeave) {
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
    EXPECT_FALSE(program::Verify(forest->program).violation.has_value());
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

// As a message to an agent has 4 MiB. A name is the cheapest way to a long program.
TEST(JobForest, AProgramThatIsTooLongForAMessageIsRefused) {
  ForestRequest request = MakeRequest(MakeFabric(1, 2, 1));
  request.name.assign(3'900'000, 'x');
  ASSERT_TRUE(BuildJobForest(request));
  request.name.assign(3'932'160, 'x');
  const auto forest = BuildJobForest(request);
  ASSERT_FALSE(forest.has_value());
  EXPECT_EQ(forest.error().code, ErrorCode::kResourceExhausted);
  EXPECT_NE(forest.error().message.find("3932160 at most"), std::string::npos)
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
