#include <benchmark/benchmark.h>

#include <random>
#include <utility>
#include <vector>

#include "common/fabric/builders.h"
#include "common/fabric/ecmp/linear_map.h"
#include "common/fabric/ecmp/path_map.h"
#include "common/fabric/ecmp/path_predictor.h"
#include "common/files/topology_file.h"

namespace espalier::fabric {
namespace {

// The fabric of the published job files: 64 leaves, 32 spines, 2,048 hosts.
Topology BigFabric() {
  TopologySpec spec = *BuildLeafSpine({.spines = 32, .leaves = 64, .hosts_per_leaf = 32});
  for (Node& node : spec.nodes) {
    if (node.kind == NodeKind::kSwitch) node.ecmp = EcmpSpec{"linux", 7};
  }
  return *Topology::Build(std::move(spec));
}

// The time to compute the paths of all pairs of leaves.
void BM_AllPathsOfBigFabric(benchmark::State& state) {
  const Topology topology = BigFabric();
  for ([[maybe_unused]] auto _ : state) {
    PathTable paths(topology);
    std::size_t count = 0;
    for (int to = 0; to < 64; ++to) {
      for (int from = 0; from < 64; ++from) {
        count += paths.Between(NodeId(2048 + from), NodeId(2048 + to)).size();
      }
    }
    benchmark::DoNotOptimize(count);
  }
}
BENCHMARK(BM_AllPathsOfBigFabric)->Unit(benchmark::kMillisecond);

// 8,192 hosts at three tiers, with 256 paths between pods.
Topology FatTree() {
  TopologySpec spec = *BuildFatTree({.k = 32});
  for (std::size_t i = 0; i < spec.nodes.size(); ++i) {
    Node& node = spec.nodes[i];
    if (node.kind == NodeKind::kSwitch) node.ecmp = EcmpSpec{"crc32", i};
  }
  return *Topology::Build(std::move(spec));
}

// A pair of NICs of different switches that no earlier one is likely to share.
std::pair<NodeId, NodeId> DrawPair(const PathTable& paths, std::mt19937& random) {
  const auto draw = [&] { return NodeId(static_cast<std::int32_t>(random() % 8'192)); };
  for (;;) {
    const std::pair pair(draw(), draw());
    const auto from = paths.FindAttachment(pair.first);
    const auto to = paths.FindAttachment(pair.second);
    if (from && to && from->leaf != to->leaf) return pair;
  }
}

// The time to list the paths of a pair of leaves that has not been asked for, mostly of two pods.
void BM_PathsOfANewPairOfAFatTree(benchmark::State& state) {
  const Topology topology = FatTree();
  PathTable paths(topology);
  std::mt19937 random(1);
  std::size_t count = 0;
  for ([[maybe_unused]] auto _ : state) {
    const auto [from, to] = DrawPair(paths, random);
    count += paths.Between(paths.FindAttachment(from)->leaf, paths.FindAttachment(to)->leaf).size();
  }
  benchmark::DoNotOptimize(count);
}
BENCHMARK(BM_PathsOfANewPairOfAFatTree)->Unit(benchmark::kMicrosecond)->Iterations(4'000);

// The time to predict the path of one port between hosts of ever other pairs of leaves, whose paths
// are listed already.
void BM_PredictForOtherPairsOfAFatTree(benchmark::State& state) {
  const Topology topology = FatTree();
  PathTable paths(topology);
  auto predictor = *PathPredictor::Build(topology, paths);
  std::mt19937 random(1);
  std::vector<std::pair<NodeId, NodeId>> pairs(4'000);
  for (auto& pair : pairs) {
    pair = DrawPair(paths, random);
    const auto leaf_of = [&](NodeId nic) { return paths.FindAttachment(nic)->leaf; };
    benchmark::DoNotOptimize(paths.Between(leaf_of(pair.first), leaf_of(pair.second)));
  }
  std::size_t next = 0;
  for ([[maybe_unused]] auto _ : state) {
    const auto [from, to] = pairs[next++ % pairs.size()];
    FlowTuple tuple;
    tuple.source = topology.node(from).addresses.front();
    tuple.destination = topology.node(to).addresses.front();
    tuple.source_port = kFirstRocePort;
    benchmark::DoNotOptimize(predictor.Predict(tuple, from, to));
  }
}
BENCHMARK(BM_PredictForOtherPairsOfAFatTree)->Unit(benchmark::kMicrosecond);

// The time to predict all 16,384 ports of a pair of hosts with the Linux model.
void BM_PredictAllPorts(benchmark::State& state) {
  const Topology topology = BigFabric();
  PathTable paths(topology);
  auto predictor = *PathPredictor::Build(topology, paths);
  FlowTuple tuple;
  tuple.source = topology.node(NodeId(0)).addresses.front();
  tuple.destination = topology.node(NodeId(2047)).addresses.front();
  for ([[maybe_unused]] auto _ : state) {
    PathMap map;
    const PortKey key{.source = NodeId(0), .destination = NodeId(2047)};
    const auto ports = *predictor.PortsOf(tuple, NodeId(0), NodeId(2047));
    for (std::size_t i = 0; i < kRocePortCount; ++i) {
      const auto port = static_cast<std::uint16_t>(kFirstRocePort + i);
      map.Predict(key, port, *ports.Predict(port));
    }
    benchmark::DoNotOptimize(map.PortCount());
  }
}
BENCHMARK(BM_PredictAllPorts)->Unit(benchmark::kMillisecond);

void BM_RecogniseLinearHashFrom200Probes(benchmark::State& state) {
  const auto hash = *MakeEcmpHash({"crc32", 99});
  std::mt19937 random(1);
  std::vector<PortSample> samples(200);
  FlowTuple tuple;
  for (PortSample& sample : samples) {
    sample.port = static_cast<std::uint16_t>(kFirstRocePort + random() % kRocePortCount);
    tuple.source_port = sample.port;
    sample.path = PathIndex(static_cast<std::int32_t>(hash->Choose(tuple, 32)));
  }
  for ([[maybe_unused]] auto _ : state)
    benchmark::DoNotOptimize(LinearPortMap::Recognise(samples, 32));
}
BENCHMARK(BM_RecogniseLinearHashFrom200Probes)->Unit(benchmark::kMicrosecond);

void BM_ReadTopologyFileOfBigFabric(benchmark::State& state) {
  const std::string text = io::FormatTopology(BigFabric().Spec());
  for ([[maybe_unused]] auto _ : state) benchmark::DoNotOptimize(io::ParseTopology(text, "bench"));
}
BENCHMARK(BM_ReadTopologyFileOfBigFabric)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace espalier::fabric

BENCHMARK_MAIN();
