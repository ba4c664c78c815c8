#include "collective/algorithms/direct.h"

#include <fmt/format.h>

#include <algorithm>

#include "collective/algorithms/parts.h"

namespace espalier::algorithms {
namespace {

using program::Buffer;
using program::ChunkRef;
using program::CollectiveKind;
using program::CollectiveSpec;
using program::ProgramBuilder;

}  // namespace

Result<CollectiveSpec> DescribeAllReduceAllPairs(const AlgorithmOptions& options) {
  return CollectiveSpec{
      .kind = CollectiveKind::kAllReduce, .ranks = options.ranks, .chunks = options.ranks};
}

void BuildAllReduceAllPairs(ProgramBuilder& builder, const AlgorithmOptions& options) {
  const int ranks = options.ranks;
  if (ranks == 1) return CopyOwn(builder, 1);
  for (int owner = 0; owner < ranks; ++owner) {
    ChunkRef sum = builder.Chunk(owner, Buffer::kInput, owner);
    for (int hops = 1; hops < ranks; ++hops) {
      sum = sum.ReduceTo(builder.Chunk((owner + hops) % ranks, Buffer::kInput, owner),
                         Buffer::kOutput, owner);
    }
  }
  for (int owner = 0; owner < ranks; ++owner) {
    const ChunkRef sum = builder.Chunk(owner, Buffer::kOutput, owner);
    for (int hops = 1; hops < ranks; ++hops) {
      sum.Copy((owner + hops) % ranks, Buffer::kOutput, owner);
    }
  }
}

void BuildAllGatherBruck(ProgramBuilder& builder, const AlgorithmOptions& options) {
  const int ranks = options.ranks;
  // Chunk j of a rank's scratch is the chunk of the rank j places further on.
  for (int rank = 0; rank < ranks; ++rank) {
    builder.Chunk(rank, Buffer::kInput, 0).Copy(rank, Buffer::kScratch, 0);
  }
  for (int distance = 1; distance < ranks; distance *= 2) {
    const int count = std::min(distance, ranks - distance);
    for (int rank = 0; rank < ranks; ++rank) {
      builder.Chunk((rank + distance) % ranks, Buffer::kScratch, 0, count)
          .Copy(rank, Buffer::kScratch, distance);
    }
  }
  for (int rank = 0; rank < ranks; ++rank) {
    builder.Chunk(rank, Buffer::kScratch, 0, ranks - rank).Copy(rank, Buffer::kOutput, rank);
    if (rank > 0) {
      builder.Chunk(rank, Buffer::kScratch, ranks - rank, rank).Copy(rank, Buffer::kOutput, 0);
    }
  }
}

Result<CollectiveSpec> DescribeAllToAll(const AlgorithmOptions& options) {
  return CollectiveSpec{
      .kind = CollectiveKind::kAllToAll, .ranks = options.ranks, .chunks = options.ranks};
}

void BuildAllToAllDirect(ProgramBuilder& builder, const AlgorithmOptions& options) {
  const int ranks = options.ranks;
  const bool by_scratch = options.placement && options.placement->in_place;
  for (int rank = 0; by_scratch && rank < ranks; ++rank) {
    builder.Chunk(rank, Buffer::kInput, 0, ranks).Copy(rank, Buffer::kScratch, 0);
  }
  for (int rank = 0; rank < ranks; ++rank) {
    for (int hops = 0; hops < ranks; ++hops) {
      const int to = (rank + hops) % ranks;
      builder.Chunk(rank, by_scratch ? Buffer::kScratch : Buffer::kInput, to)
          .Copy(to, Buffer::kOutput, rank);
    }
  }
}

Result<CollectiveSpec> DescribeAllToAllTwoStep(const AlgorithmOptions& options) {
  if (auto nodes = CountNodes(options); !nodes) return Propagate(nodes);
  if (options.placement && options.placement->in_place) {
    return Fail(ErrorCode::kInvalidArgument, "does not work in place");
  }
  return DescribeAllToAll(options);
}

void BuildAllToAllTwoStep(ProgramBuilder& builder, const AlgorithmOptions& options) {
  const int nodes = *CountNodes(options);
  const int per_node = options.ranks / nodes;
  const auto rank = [per_node](int node, int place) { return node * per_node + place; };
  for (int to = 0; to < options.ranks; ++to) {
    const int to_node = to / per_node;
    const int to_place = to % per_node;
    for (int node = 0; node < nodes; ++node) {
      for (int place = 0; place < per_node; ++place) {
        const ChunkRef chunk = builder.Chunk(rank(node, place), Buffer::kInput, to);
        if (node == to_node) {
          chunk.Copy(to, Buffer::kOutput, rank(node, place));
        } else {
          chunk.Copy(rank(node, to_place), Buffer::kScratch, rank(to_node, place));
        }
      }
      if (node == to_node) continue;
      builder.Chunk(rank(node, to_place), Buffer::kScratch, rank(to_node, 0), per_node)
          .Copy(to, Buffer::kOutput, rank(node, 0));
    }
  }
}

Result<CollectiveSpec> DescribeAllToNext(const AlgorithmOptions& options) {
  auto nodes = CountNodes(options);
  if (!nodes) return Propagate(nodes);
  return CollectiveSpec{.kind = CollectiveKind::kAllToNext,
                        .ranks = options.ranks,
                        .chunks = *nodes == 1 ? 1 : options.ranks / *nodes};
}

void BuildAllToNext(ProgramBuilder& builder, const AlgorithmOptions& options) {
  const CollectiveSpec spec = *DescribeAllToNext(options);
  const int per_node = options.ranks / *CountNodes(options);
  // From the end, so that in place no chunk is overwritten before it is sent.
  for (int from = options.ranks - 2; from >= 0; --from) {
    const int to = from + 1;
    if (from / per_node == to / per_node) {
      builder.Chunk(from, Buffer::kInput, 0, spec.chunks).Copy(to, Buffer::kOutput, 0);
      continue;
    }
    const int from_node = from - from % per_node;
    for (int place = 0; place < per_node; ++place) {
      ChunkRef part = builder.Chunk(from, Buffer::kInput, place);
      if (from_node + place != from) part = part.Copy(from_node + place, Buffer::kScratch, 0);
      if (to + place != to) part = part.Copy(to + place, Buffer::kScratch, 1);
      part.Copy(to, Buffer::kOutput, place);
    }
  }
}

Result<CollectiveSpec> DescribeBarrier(const AlgorithmOptions& options) {
  if (options.root < 0 || options.root >= options.ranks) {
    return Fail(ErrorCode::kInvalidArgument, fmt::format("there is no rank {}", options.root));
  }
  return CollectiveSpec{.kind = CollectiveKind::kBarrier, .ranks = options.ranks, .chunks = 1};
}

void BuildBarrierAllToAll(ProgramBuilder& builder, const AlgorithmOptions& options) {
  for (int rank = 0; rank < options.ranks; ++rank) {
    for (int to = 0; to < options.ranks; ++to) {
      if (to != rank) builder.Chunk(rank, Buffer::kInput, 0).Copy(to, Buffer::kScratch, rank);
    }
  }
}

void BuildBarrierAllToOne(ProgramBuilder& builder, const AlgorithmOptions& options) {
  ChunkRef all = builder.Chunk(options.root, Buffer::kInput, 0);
  for (int rank = 0; rank < options.ranks; ++rank) {
    if (rank == options.root) continue;
    all = all.ReduceTo(builder.Chunk(rank, Buffer::kInput, 0), Buffer::kScratch, 0);
  }
  for (int rank = 0; rank < options.ranks; ++rank) {
    if (rank != options.root) all.Copy(rank, Buffer::kScratch, 0);
  }
}

}  // namespace espalier::algorithms
