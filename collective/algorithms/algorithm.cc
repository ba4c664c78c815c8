#include "collective/algorithms/algorithm.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>

#include "collective/algorithms/direct.h"
#include "collective/algorithms/halving.h"
#include "collective/algorithms/rings.h"
#include "collective/algorithms/trees.h"
#include "collective/program/passes/lower.h"

namespace espalier::algorithms {
namespace {

constexpr int kMaxRanks = 4096;
constexpr program::BufferPlacement kAnywhere{.in_place = true, .out_of_place = true};
constexpr program::BufferPlacement kOutOfPlace{.in_place = false, .out_of_place = true};

constexpr std::array kAlgorithms = {
    Algorithm{"allgather-bruck", "Exchanges through scratch memory in lg P steps", "", kAnywhere,
              DescribeAllGather, BuildAllGatherBruck},
    Algorithm{"allgather-hierarchical", "Rings between nodes, then within them", "--ranks-per-node",
              kAnywhere, DescribeAllGatherHierarchical, BuildAllGatherHierarchical},
    Algorithm{"allgather-ring", "P - 1 steps around a ring", "", kAnywhere, DescribeAllGather,
              BuildAllGatherRing},
    Algorithm{"allreduce-all-pairs", "Two steps between all pairs", "", kAnywhere,
              DescribeAllReduceAllPairs, BuildAllReduceAllPairs},
    Algorithm{"allreduce-bcube", "Exchanges in groups of at most B", "--base", kAnywhere,
              DescribeAllReduceBcube, BuildAllReduceBcube},
    Algorithm{"allreduce-double-binary-tree", "Two trees with half of the data each", "--pieces",
              kAnywhere, DescribeAllReduceTrees, BuildAllReduceTrees},
    Algorithm{"allreduce-doubling", "Exchanges of whole buffers in lg P steps, for small data", "",
              kAnywhere, DescribeAllReduceDoubling, BuildAllReduceDoubling},
    Algorithm{"allreduce-halving-doubling", "Recursive halving, then doubling; binary blocks", "",
              kAnywhere, DescribeAllReduceHalvingDoubling, BuildAllReduceHalvingDoubling},
    Algorithm{"allreduce-hierarchical", "Rings within nodes and between them", "--ranks-per-node",
              kAnywhere, DescribeAllReduceHierarchical, BuildAllReduceHierarchical},
    Algorithm{"allreduce-ring", "Whole buffers around a ring, for small data", "", kAnywhere,
              DescribeAllReduceRing, BuildAllReduceRing},
    Algorithm{"allreduce-ring-chunked", "Chunks twice around a ring", "--pieces", kAnywhere,
              DescribeAllReduceRingChunked, BuildAllReduceRingChunked},
    Algorithm{"alltoall-direct", "Every rank to every other", "", kOutOfPlace, DescribeAllToAll,
              BuildAllToAllDirect},
    Algorithm{"alltoall-two-step", "Data for another node gathered before it is sent",
              "--ranks-per-node", kOutOfPlace, DescribeAllToAllTwoStep, BuildAllToAllTwoStep},
    Algorithm{"alltonext", "Rank r to rank r + 1; all ranks of a node share its transfer",
              "--ranks-per-node", kAnywhere, DescribeAllToNext, BuildAllToNext},
    Algorithm{"barrier-all-to-all", "One step between all pairs", "", kAnywhere, DescribeBarrier,
              BuildBarrierAllToAll},
    Algorithm{"barrier-all-to-one", "Messages to the root and back", "--root", kAnywhere,
              DescribeBarrier, BuildBarrierAllToOne},
    Algorithm{"broadcast-binomial", "Binomial tree in lg P steps", "--root", kAnywhere,
              DescribeBroadcast, BuildBroadcastBinomial},
    Algorithm{"broadcast-hierarchical", "Binomial trees between nodes, then within them",
              "--root, --ranks-per-node", kAnywhere, DescribeBroadcastHierarchical,
              BuildBroadcastHierarchical},
    Algorithm{"broadcast-one-to-all", "One step, all from the root", "--root", kAnywhere,
              DescribeBroadcast, BuildBroadcastOneToAll},
    Algorithm{"broadcast-pipelined", "Pieces along a chain", "--root, --pieces", kAnywhere,
              DescribeBroadcastPipelined, BuildBroadcastPipelined},
    Algorithm{"pairwise-exchange", "C steps of halving-doubling's pairs, S / C each", "--steps",
              kOutOfPlace, DescribePairwiseExchange, BuildPairwiseExchange},
    Algorithm{"reduce-binomial", "Binomial tree in lg P steps", "--root", kAnywhere, DescribeReduce,
              BuildReduceBinomial},
    Algorithm{"reduce-hierarchical", "Binomial trees within nodes, then between them",
              "--root, --ranks-per-node", kAnywhere, DescribeReduceHierarchical,
              BuildReduceHierarchical},
    Algorithm{"reduce-scatter-halving-doubling", "Recursive halving, then the distribution",
              "--counts", kAnywhere, DescribeReduceScatter, BuildReduceScatterHalvingDoubling},
    Algorithm{"reduce-scatter-hierarchical", "Rings within nodes, then between them",
              "--ranks-per-node", kAnywhere, DescribeReduceScatterHierarchical,
              BuildReduceScatterHierarchical},
    Algorithm{"reduce-scatter-ring", "P - 1 steps around a ring", "--counts", kAnywhere,
              DescribeReduceScatter, BuildReduceScatterRing},
};

Result<const Algorithm*> Find(std::string_view name) {
  const auto found = std::ranges::find(kAlgorithms, name, &Algorithm::name);
  if (found != kAlgorithms.end()) return &*found;
  std::string names;
  for (const Algorithm& one : kAlgorithms) {
    names += (names.empty() ? "" : ", ") + std::string(one.name);
  }
  return Fail(ErrorCode::kNotFound,
              fmt::format("there is no algorithm \"{}\" (write one of {})", name, names));
}

Result<void> CheckOptions(const AlgorithmOptions& options) {
  if (options.ranks < 1 || options.ranks > kMaxRanks) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{} ranks are out of range (1 to {})", options.ranks, kMaxRanks));
  }
  constexpr int kMaxPieces = 1 << 16;
  if (options.pieces < 0 || options.pieces > kMaxPieces) {
    return Fail(ErrorCode::kInvalidArgument, fmt::format("{} pieces", options.pieces));
  }
  if (options.fifo_slots < 1) {
    return Fail(ErrorCode::kInvalidArgument, fmt::format("{} slots", options.fifo_slots));
  }
  return {};
}

}  // namespace

std::span<const Algorithm> Algorithms() { return kAlgorithms; }

Result<program::Program> MakeAlgorithm(std::string_view name, const AlgorithmOptions& options) {
  auto algorithm = Find(name);
  if (!algorithm) return Propagate(algorithm);
  if (auto checked = CheckOptions(options); !checked) return Propagate(checked);
  auto spec = (*algorithm)->describe(options);
  if (!spec) {
    return Fail(spec.error().code, fmt::format("{}: {}", name, spec.error().message));
  }
  program::ProgramBuilder builder(std::string(name), *spec,
                                  options.placement.value_or((*algorithm)->placement));
  if (!builder.has_failed()) {
    const auto scope = builder.Parallelize(options.instances);
    (*algorithm)->build(builder, options);
  }
  auto chunks = builder.Finish();
  if (!chunks) return Propagate(chunks);
  return program::Lower(*chunks, {.fifo_slots = options.fifo_slots});
}

}  // namespace espalier::algorithms
