#include "collective/algorithms/rings.h"

#include <fmt/format.h>

#include <vector>

#include "collective/algorithms/parts.h"

namespace espalier::algorithms {
namespace {

using program::Buffer;
using program::ChunkRef;
using program::CollectiveKind;

constexpr int kPiecesOfRing = 2;
constexpr int kPiecesOfChain = 8;

// The shares of a ring: `count` chunks from `begin` on for each member.
struct RingShare {
  int begin = 0;
  int stride = 1;  // distance between the chunks of successive members
  int count = 1;
};

// Reduces around the ring: member r ends with the reduction of all members' chunks of share r, in
// the output.
void ReduceAround(ProgramBuilder& builder, const std::vector<int>& ranks, RingShare share,
                  Buffer from, int channel = program::kAnyChannel) {
  const auto size = static_cast<int>(ranks.size());
  for (int member = 0; member < size; ++member) {
    const int index = share.begin + member * share.stride;
    const auto rank = [&](int hops) {
      return ranks[static_cast<std::size_t>((member + hops) % size)];
    };
    ChunkRef chunk = builder.Chunk(rank(1), from, index, share.count);
    for (int hops = 2; hops <= size; ++hops) {
      chunk = builder.Chunk(rank(hops), from, index, share.count)
                  .ReduceTo(chunk, Buffer::kOutput, index, channel);
    }
  }
}

// Gathers around the ring: all members get share r from member r.
void GatherAround(ProgramBuilder& builder, const std::vector<int>& ranks, RingShare share,
                  int channel = program::kAnyChannel) {
  const auto size = static_cast<int>(ranks.size());
  for (int member = 0; member < size; ++member) {
    const int index = share.begin + member * share.stride;
    ChunkRef chunk =
        builder.Chunk(ranks[static_cast<std::size_t>(member)], Buffer::kOutput, index, share.count);
    for (int hops = 1; hops < size; ++hops) {
      chunk = chunk.Copy(ranks[static_cast<std::size_t>((member + hops) % size)], Buffer::kOutput,
                         index, channel);
    }
  }
}

// Ranks by node: those of a node, and those of equal place in their nodes.
struct Nodes {
  explicit Nodes(const AlgorithmOptions& options)
      : count(*CountNodes(options)), per_node(options.ranks / count) {}
  std::vector<int> Local(int node) const {
    std::vector<int> ranks;
    for (int i = 0; i < per_node; ++i) ranks.push_back(node * per_node + i);
    return ranks;
  }
  std::vector<int> Cross(int place) const {
    std::vector<int> ranks;
    for (int node = 0; node < count; ++node) ranks.push_back(node * per_node + place);
    return ranks;
  }

  int count;
  int per_node;
};

// Parts that run at the same time on other links use other channels, as in GC3.
constexpr int kLocalReduce = 0;
constexpr int kCross = 1;
constexpr int kLocalGather = 2;

}  // namespace

Result<CollectiveSpec> DescribeAllReduceRing(const AlgorithmOptions& options) {
  return CollectiveSpec{.kind = CollectiveKind::kAllReduce, .ranks = options.ranks, .chunks = 1};
}

void BuildAllReduceRing(ProgramBuilder& builder, const AlgorithmOptions& options) {
  const int ranks = options.ranks;
  if (ranks == 1) return CopyOwn(builder, 1);
  // Slot r of a rank's scratch holds the buffer of rank r.
  for (int owner = 0; owner < ranks; ++owner) {
    ChunkRef chunk = builder.Chunk(owner, Buffer::kInput, 0);
    for (int hops = 1; hops < ranks; ++hops) {
      chunk = chunk.Copy((owner + hops) % ranks, Buffer::kScratch, owner);
    }
  }
  for (int rank = 0; rank < ranks; ++rank) {
    const auto from = [&](int owner) {
      return owner == rank ? builder.Chunk(rank, Buffer::kInput, 0)
                           : builder.Chunk(rank, Buffer::kScratch, owner);
    };
    ChunkRef sum = from(0);
    for (int owner = 1; owner < ranks; ++owner) {
      if (owner == ranks - 1 && owner == rank) {
        sum = from(owner).ReduceTo(sum, Buffer::kOutput, 0);
      } else if (owner == ranks - 1 || rank == 0) {
        sum = sum.ReduceTo(from(owner), Buffer::kOutput, 0);
      } else {
        sum = sum.Reduce(from(owner));
      }
    }
  }
}

Result<CollectiveSpec> DescribeAllReduceRingChunked(const AlgorithmOptions& options) {
  const int pieces = options.pieces == 0 ? kPiecesOfRing : options.pieces;
  return CollectiveSpec{
      .kind = CollectiveKind::kAllReduce, .ranks = options.ranks, .chunks = options.ranks * pieces};
}

void BuildAllReduceRingChunked(ProgramBuilder& builder, const AlgorithmOptions& options) {
  const int pieces = options.pieces == 0 ? kPiecesOfRing : options.pieces;
  if (options.ranks == 1) return CopyOwn(builder, pieces);
  const std::vector<int> ranks = AllRanks(options.ranks);
  for (int piece = 0; piece < pieces; ++piece) {
    ReduceAround(builder, ranks, {.begin = piece, .stride = pieces}, Buffer::kInput);
  }
  for (int piece = 0; piece < pieces; ++piece) {
    GatherAround(builder, ranks, {.begin = piece, .stride = pieces});
  }
}

Result<CollectiveSpec> DescribeReduceScatter(const AlgorithmOptions& options) {
  CollectiveSpec spec{.kind = CollectiveKind::kReduceScatter,
                      .ranks = options.ranks,
                      .chunks = options.ranks,
                      .counts = options.counts};
  if (!spec.counts.empty()) {
    std::int64_t chunks = 0;
    for (const int count : spec.counts) {
      if (count < 0) return Fail(ErrorCode::kInvalidArgument, fmt::format("a count of {}", count));
      chunks += count;
    }
    if (chunks > kMaxChunks) {
      return Fail(ErrorCode::kResourceExhausted,
                  fmt::format("the counts add up to {} chunks, which is too many", chunks));
    }
    spec.chunks = static_cast<int>(chunks);
  }
  return spec;
}

void BuildReduceScatterRing(ProgramBuilder& builder, const AlgorithmOptions& options) {
  const auto spec = *DescribeReduceScatter(options);
  if (options.ranks == 1) return CopyOwn(builder, spec.chunks);
  for (int owner = 0; owner < options.ranks; ++owner) {
    const int count = spec.OutputChunks(owner);
    const int index = spec.FirstChunk(owner);
    if (count == 0) continue;
    ChunkRef chunk = builder.Chunk((owner + 1) % options.ranks, Buffer::kInput, index, count);
    for (int hops = 2; hops <= options.ranks; ++hops) {
      const int rank = (owner + hops) % options.ranks;
      const bool is_last = rank == owner;
      chunk =
          builder.Chunk(rank, Buffer::kInput, index, count)
              .ReduceTo(chunk, is_last ? Buffer::kOutput : Buffer::kScratch, is_last ? 0 : index);
    }
  }
}

Result<CollectiveSpec> DescribeAllGather(const AlgorithmOptions& options) {
  return CollectiveSpec{
      .kind = CollectiveKind::kAllGather, .ranks = options.ranks, .chunks = options.ranks};
}

void BuildAllGatherRing(ProgramBuilder& builder, const AlgorithmOptions& options) {
  for (int owner = 0; owner < options.ranks; ++owner) {
    ChunkRef chunk = builder.Chunk(owner, Buffer::kInput, 0);
    chunk.Copy(owner, Buffer::kOutput, owner);
    for (int hops = 1; hops < options.ranks; ++hops) {
      chunk = chunk.Copy((owner + hops) % options.ranks, Buffer::kOutput, owner);
    }
  }
}

Result<CollectiveSpec> DescribeBroadcastPipelined(const AlgorithmOptions& options) {
  return CollectiveSpec{.kind = CollectiveKind::kBroadcast,
                        .ranks = options.ranks,
                        .chunks = options.pieces == 0 ? kPiecesOfChain : options.pieces,
                        .root = options.root};
}

void BuildBroadcastPipelined(ProgramBuilder& builder, const AlgorithmOptions& options) {
  const int pieces = options.pieces == 0 ? kPiecesOfChain : options.pieces;
  for (int piece = 0; piece < pieces; ++piece) {
    ChunkRef chunk = builder.Chunk(options.root, Buffer::kInput, piece);
    chunk.Copy(options.root, Buffer::kOutput, piece);
    for (int hops = 1; hops < options.ranks; ++hops) {
      chunk = chunk.Copy((options.root + hops) % options.ranks, Buffer::kOutput, piece);
    }
  }
}

Result<CollectiveSpec> DescribeAllReduceHierarchical(const AlgorithmOptions& options) {
  auto nodes = CountNodes(options);
  if (!nodes) return Propagate(nodes);
  return CollectiveSpec{
      .kind = CollectiveKind::kAllReduce, .ranks = options.ranks, .chunks = options.ranks};
}

void BuildAllReduceHierarchical(ProgramBuilder& builder, const AlgorithmOptions& options) {
  if (options.ranks == 1) return CopyOwn(builder, 1);
  const Nodes nodes(options);
  const int per_node = nodes.per_node;
  const RingShare local_share{.begin = 0, .stride = nodes.count, .count = nodes.count};
  for (int node = 0; per_node > 1 && node < nodes.count; ++node) {
    ReduceAround(builder, nodes.Local(node), local_share, Buffer::kInput, kLocalReduce);
  }
  for (int place = 0; nodes.count > 1 && place < per_node; ++place) {
    const RingShare share{.begin = place * nodes.count};
    ReduceAround(builder, nodes.Cross(place), share,
                 per_node > 1 ? Buffer::kOutput : Buffer::kInput, kCross);
    GatherAround(builder, nodes.Cross(place), share, kCross);
  }
  for (int node = 0; per_node > 1 && node < nodes.count; ++node) {
    GatherAround(builder, nodes.Local(node), local_share, kLocalGather);
  }
}

Result<CollectiveSpec> DescribeAllGatherHierarchical(const AlgorithmOptions& options) {
  auto nodes = CountNodes(options);
  if (!nodes) return Propagate(nodes);
  return DescribeAllGather(options);
}

void BuildAllGatherHierarchical(ProgramBuilder& builder, const AlgorithmOptions& options) {
  const Nodes nodes(options);
  for (int rank = 0; rank < options.ranks; ++rank) {
    builder.Chunk(rank, Buffer::kInput, 0).Copy(rank, Buffer::kOutput, rank);
  }
  for (int place = 0; place < nodes.per_node; ++place) {
    GatherAround(builder, nodes.Cross(place), {.begin = place, .stride = nodes.per_node}, kCross);
  }
  for (int node = 0; node < nodes.count; ++node) {
    for (int owner = 0; owner < nodes.count; ++owner) {
      GatherAround(builder, nodes.Local(node), {.begin = owner * nodes.per_node}, kLocalGather);
    }
  }
}

Result<CollectiveSpec> DescribeReduceScatterHierarchical(const AlgorithmOptions& options) {
  auto nodes = CountNodes(options);
  if (!nodes) return Propagate(nodes);
  AlgorithmOptions equal = options;
  equal.counts.clear();
  return DescribeReduceScatter(equal);
}

void BuildReduceScatterHierarchical(ProgramBuilder& builder, const AlgorithmOptions& options) {
  const Nodes nodes(options);
  if (nodes.count == 1 || nodes.per_node == 1) {
    AlgorithmOptions flat = options;
    flat.counts.clear();
    return BuildReduceScatterRing(builder, flat);
  }
  const auto at = [](const std::vector<int>& ranks, int member) {
    return ranks[static_cast<std::size_t>(member) % ranks.size()];
  };
  // The sum of a node's chunks ends at the rank with the place of the chunk's owner.
  for (int node = 0; node < nodes.count; ++node) {
    const std::vector<int> ranks = nodes.Local(node);
    for (int owner = 0; owner < options.ranks; ++owner) {
      const int place = owner % nodes.per_node;
      ChunkRef chunk = builder.Chunk(at(ranks, place + 1), Buffer::kInput, owner);
      for (int hops = 2; hops <= nodes.per_node; ++hops) {
        chunk = builder.Chunk(at(ranks, place + hops), Buffer::kInput, owner)
                    .ReduceTo(chunk, Buffer::kScratch, owner, kLocalReduce);
      }
    }
  }
  for (int owner = 0; owner < options.ranks; ++owner) {
    const int node = owner / nodes.per_node;
    const std::vector<int> ranks = nodes.Cross(owner % nodes.per_node);
    ChunkRef chunk = builder.Chunk(at(ranks, node + 1), Buffer::kScratch, owner);
    for (int hops = 2; hops <= nodes.count; ++hops) {
      const bool is_last = hops == nodes.count;
      chunk = builder.Chunk(at(ranks, node + hops), Buffer::kScratch, owner)
                  .ReduceTo(chunk, is_last ? Buffer::kOutput : Buffer::kScratch,
                            is_last ? 0 : owner, kCross);
    }
  }
}

}  // namespace espalier::algorithms
