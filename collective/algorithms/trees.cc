#include "collective/algorithms/trees.h"

#include <vector>

#include "collective/algorithms/parts.h"

namespace espalier::algorithms {
namespace {

using program::Buffer;
using program::ChunkRef;
using program::CollectiveKind;
using program::CollectiveSpec;
using program::ProgramBuilder;

constexpr int kPiecesOfTree = 4;

std::size_t At(int i) { return static_cast<std::size_t>(i); }

struct Tree {
  int root = 0;
  std::vector<std::vector<int>> children;
};

// Builds the first tree, or the second one, in which the leaves of the first have children: it is
// mirrored for an even number of ranks and rotated by one for an odd number.
Tree MakeTree(int ranks, bool second) {
  const auto rename = [&](int rank) {
    if (!second) return rank;
    return ranks % 2 == 0 ? ranks - 1 - rank : (rank + 1) % ranks;
  };
  Tree tree{.root = rename(0), .children = std::vector<std::vector<int>>(At(ranks))};
  for (int rank = 1; rank < ranks; ++rank) {
    tree.children[At(rename(FirstTreeParent(rank, ranks)))].push_back(rename(rank));
  }
  return tree;
}

ChunkRef ReduceUp(ProgramBuilder& builder, const Tree& tree, int rank, int chunk) {
  ChunkRef sum = builder.Chunk(rank, Buffer::kInput, chunk);
  for (const int child : tree.children[At(rank)]) {
    sum = sum.ReduceTo(ReduceUp(builder, tree, child, chunk), Buffer::kOutput, chunk);
  }
  return sum;
}

void CopyDown(const Tree& tree, const ChunkRef& chunk) {
  for (const int child : tree.children[At(chunk.rank())]) {
    CopyDown(tree, chunk.Copy(child, Buffer::kOutput, chunk.index()));
  }
}

int Pieces(const AlgorithmOptions& options) {
  return options.pieces == 0 ? kPiecesOfTree : options.pieces;
}

}  // namespace

int FirstTreeParent(int rank, int ranks) {
  if (rank == 0) return -1;
  const int lowest_bit = rank & -rank;
  const int above = (rank ^ lowest_bit) | (lowest_bit << 1);
  return above < ranks ? above : rank ^ lowest_bit;
}

Result<CollectiveSpec> DescribeAllReduceTrees(const AlgorithmOptions& options) {
  return CollectiveSpec{
      .kind = CollectiveKind::kAllReduce, .ranks = options.ranks, .chunks = 2 * Pieces(options)};
}

void BuildAllReduceTrees(ProgramBuilder& builder, const AlgorithmOptions& options) {
  const int pieces = Pieces(options);
  if (options.ranks == 1) return CopyOwn(builder, 2 * pieces);
  const Tree trees[] = {MakeTree(options.ranks, false), MakeTree(options.ranks, true)};
  for (int piece = 0; piece < pieces; ++piece) {
    for (int i = 0; i < 2; ++i) {
      CopyDown(trees[i], ReduceUp(builder, trees[i], trees[i].root, i * pieces + piece));
    }
  }
}

Result<CollectiveSpec> DescribeBroadcast(const AlgorithmOptions& options) {
  return CollectiveSpec{.kind = CollectiveKind::kBroadcast,
                        .ranks = options.ranks,
                        .chunks = 1,
                        .root = options.root};
}

void BuildBroadcastOneToAll(ProgramBuilder& builder, const AlgorithmOptions& options) {
  const ChunkRef chunk = builder.Chunk(options.root, Buffer::kInput, 0);
  for (int rank = 0; rank < options.ranks; ++rank) chunk.Copy(rank, Buffer::kOutput, 0);
}

void BuildBroadcastBinomial(ProgramBuilder& builder, const AlgorithmOptions& options) {
  const auto rank = [&](int place) { return (options.root + place) % options.ranks; };
  std::vector<ChunkRef> chunks{builder.Chunk(options.root, Buffer::kInput, 0)};
  chunks.front().Copy(options.root, Buffer::kOutput, 0);
  while (static_cast<int>(chunks.size()) < options.ranks) {
    const auto reached = static_cast<int>(chunks.size());
    for (int place = 0; place < reached && reached + place < options.ranks; ++place) {
      chunks.push_back(chunks[At(place)].Copy(rank(reached + place), Buffer::kOutput, 0));
    }
  }
}

Result<CollectiveSpec> DescribeReduce(const AlgorithmOptions& options) {
  return CollectiveSpec{
      .kind = CollectiveKind::kReduce, .ranks = options.ranks, .chunks = 1, .root = options.root};
}

void BuildReduceBinomial(ProgramBuilder& builder, const AlgorithmOptions& options) {
  if (options.ranks == 1) return CopyOwn(builder, 1);
  std::vector<ChunkRef> sums;
  for (int place = 0; place < options.ranks; ++place) {
    sums.push_back(builder.Chunk((options.root + place) % options.ranks, Buffer::kInput, 0));
  }
  for (int distance = 1; distance < options.ranks; distance *= 2) {
    for (int place = 0; place + distance < options.ranks; place += 2 * distance) {
      sums[At(place)] = sums[At(place)].ReduceTo(
          sums[At(place + distance)], place == 0 ? Buffer::kOutput : Buffer::kScratch, 0);
    }
  }
}

}  // namespace espalier::algorithms
